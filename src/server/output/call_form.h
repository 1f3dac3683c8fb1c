// CallForm: reads what follows the tag that opens one form of tool calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "server/output/call_sink.h"
#include "server/output/tool_format.h"

namespace forerun::server {

class CallForm {
 public:
  enum class Step : uint8_t {
    kMore,      // the byte belongs to the form
    kCallDone,  // a call is complete with it, and another may follow
    kEnd,       // the form is complete with it
    kBad,       // the byte does not fit the form: it is text, and so are all bytes since the last
                // call or piece of arguments
  };

  virtual ~CallForm() = default;
  // Must not be called after kEnd or kBad.
  virtual Step push(char byte, CallSink& sink) = 0;
  // Called if the text has ended within the form: puts out the rest of the arguments that have
  // come. Returns whether the bytes taken since the last call or piece of arguments are markup of
  // calls; if false, they are the beginning of a call that never came, and therefore text.
  virtual bool finish(CallSink& sink) = 0;
};

struct CallOpening {
  std::string_view tag;
  std::function<std::unique_ptr<CallForm>()> make_form;
};

// The texts that open calls of a format.
std::vector<CallOpening> call_openings(ToolFormat format);

// The reader of a call that is a whole answer and has no tag, begun by '{'; null where the format
// has none.
std::unique_ptr<CallForm> make_untagged_form(ToolFormat format);

}  // namespace forerun::server
