// CallObject: reads a call that is written as a JSON object, {"name": ..., "arguments": {...}}.
//
// Members may come in any order and others may be among them; the arguments may be called
// "parameters", be null, or be JSON text in a string. Puts out the call where its name is known and
// its arguments begin, then each of their bytes.
#pragma once

#include <string>

#include "server/output/call_form.h"
#include "server/output/json_scanner.h"

namespace forerun::server {

struct CallObjectRules {
  // If true, an object without arguments is not a call; if false, it is a call with "{}".
  bool needs_arguments = false;
  // The member "id", which may stand last, is the call's: nothing is put out before it has come or
  // the object has ended.
  bool has_id = false;
};

class CallObject : public CallForm {
 public:
  explicit CallObject(CallObjectRules rules) : rules_(rules) {}

  // kMore, kCallDone with the object's last byte, or kBad.
  Step push(char byte, CallSink& sink) override;
  bool finish(CallSink& sink) override;

 private:
  enum class Reading : uint8_t {
    kNothing,
    kKey,
    kName,
    kId,
    kArguments,      // an object, put out as it comes
    kArgumentsText,  // arguments that are a string
    kArgumentsNull,
    kOther,
  };

  // Arguments that must be complete before they count.
  bool reads_whole_arguments() const {
    return reading_ == Reading::kArgumentsText || reading_ == Reading::kArgumentsNull;
  }

  // Returns false if this byte cannot begin key_'s value.
  bool begin_value(char byte);
  // Returns false if what was read makes no call.
  bool end_reading(CallSink& sink);
  void put_out(CallSink& sink, bool waits_for_id);
  Step end_object(CallSink& sink);

  CallObjectRules rules_;
  JsonScanner scanner_;
  Reading reading_ = Reading::kNothing;
  std::string raw_;  // JSON text of the string being read
  std::string key_, name_, id_;
  bool has_arguments_ = false;
  bool has_begun_ = false;  // the call has been put out
  std::string arguments_;   // arguments that are not put out yet
};

}  // namespace forerun::server
