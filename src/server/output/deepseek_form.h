// DeepSeek's calls, within <｜tool▁calls▁begin｜> and <｜tool▁calls▁end｜>. Each is, of V3 and R1,
//   <｜tool▁call▁begin｜>function<｜tool▁sep｜>name
//   ```json
//   {...}
//   ```<｜tool▁call▁end｜>
// and of V3.1 <｜tool▁call▁begin｜>name<｜tool▁sep｜>{...}<｜tool▁call▁end｜>.
#pragma once

#include <string>

#include "server/output/call_form.h"
#include "server/output/literal.h"
#include "server/output/named_call.h"

namespace forerun::server {

class DeepSeekForm : public CallForm {
 public:
  // in_call: the tag that began the form was a call's own tag.
  explicit DeepSeekForm(bool in_call) : reading_(in_call ? Reading::kHead : Reading::kCall) {}

  Step push(char byte, CallSink& sink) override;
  bool finish(CallSink& /*sink*/) override;

 private:
  enum class Reading : uint8_t {
    kCall,   // a call's tag, or the end tag
    kHead,   // text up to <｜tool▁sep｜>
    kStart,  // name and code fence, or the arguments
    kName,
    kFence,
    kArguments,
    kTail,  // a code fence and the call's end tag
  };

  Step in_call_tag(char byte);
  Step in_head(char byte);
  Step at_start(char byte, CallSink& sink);
  Step in_fence(char byte, CallSink& sink);
  Step in_tail(char byte);

  Reading reading_;
  std::string tag_, head_, name_;
  NamedCall call_;
  bool has_call_ = false;
};

}  // namespace forerun::server
