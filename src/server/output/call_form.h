// CallForm parses the text after the tag that opens one form of tool calls.
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
    kCallDone,  // the byte completes a call, and another call may follow
    kEnd,       // the byte completes the form
    kBad,  // the byte does not fit the form: it is text, and so are all bytes since the last call
           // or piece of arguments
  };

  virtual ~CallForm() = default;
  // Must not be called after kEnd or kBad.
  virtual Step push(char byte, CallSink& sink) = 0;
  // Called if the text has ended within the form; emits the rest of the received arguments. Returns
  // whether the bytes since the last call or piece of arguments are markup of calls; if false, they
  // are the beginning of a call that never came, and therefore text.
  virtual bool finish(CallSink& sink) = 0;
};

struct CallOpening {
  std::string_view tag;
  std::function<std::unique_ptr<CallForm>()> make_form;
};

// Returns the texts that open calls of a format.
std::vector<CallOpening> call_openings(ToolFormat format);

// Makes the reader of an untagged call that is a whole answer and begins with '{'; null if the
// format has none.
std::unique_ptr<CallForm> make_untagged_form(ToolFormat format);

}  // namespace forerun::server
