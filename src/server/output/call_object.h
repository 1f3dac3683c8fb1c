// CallObject parses a call that is written as a JSON object, {"name": ..., "arguments": {...}}.
//
// Members may be in any order, with other members among them; the arguments may be called
// "parameters", be null, or be JSON text in a string. Emits the call once its name is known and its
// arguments begin, then each byte of the arguments.
#pragma once

#include <string>

#include "server/output/call_form.h"
#include "server/output/json_scanner.h"

namespace forerun::server {

struct CallObjectRules {
  // If true, an object without arguments is not a call; if false, it is a call with "{}".
  bool needs_arguments = false;
  // The call has the id of the member "id", which may be the last one: nothing is emitted before
  // the id has arrived or the object has ended.
  bool has_id = false;
};

class CallObject : public CallForm {
 public:
  explicit CallObject(CallObjectRules rules) : rules_(rules) {}

  // Returns kMore, kCallDone at the object's last byte, or kBad.
  Step push(char byte, CallSink& sink) override;
  bool finish(CallSink& sink) override;

 private:
  enum class Reading : uint8_t {
    kNothing,
    kKey,
    kName,
    kId,
    kArguments,      // an object, emitted as it arrives
    kArgumentsText,  // arguments in a string
    kArgumentsNull,
    kOther,
  };

  // Returns whether the arguments must be complete before they are emitted.
  bool reads_whole_arguments() const {
    return reading_ == Reading::kArgumentsText || reading_ == Reading::kArgumentsNull;
  }

  // Returns false if this byte cannot begin key_'s value.
  bool begin_value(char byte);
  // Returns false if the members read make no call.
  bool end_reading(CallSink& sink);
  void put_out(CallSink& sink, bool waits_for_id);
  Step end_object(CallSink& sink);

  CallObjectRules rules_;
  JsonScanner scanner_;
  Reading reading_ = Reading::kNothing;
  std::string raw_;  // JSON text of the string being read
  std::string key_, name_, id_;
  bool has_arguments_ = false;
  bool has_begun_ = false;  // the call has been emitted
  std::string arguments_;   // arguments that have not been emitted
};

}  // namespace forerun::server
