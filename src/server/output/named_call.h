// NamedCall parses the arguments of a call with a known name: a JSON object, which it passes on
// byte by byte.
#pragma once

#include <string>
#include <utility>

#include "server/output/call_form.h"
#include "server/output/json_scanner.h"

namespace forerun::server {

class NamedCall {
 public:
  // Begins the call with '{', the first byte of its arguments. Returns false if this call is not
  // allowed.
  bool begin(std::string name, std::string id, CallSink& sink) {
    if (!sink.may_call(name)) return false;
    scanner_ = {};
    sink.begin_call(std::move(name), std::move(id));
    return push('{', sink) == JsonScanner::Step::kMore;
  }

  // Returns kEnd at the arguments' last byte.
  JsonScanner::Step push(char byte, CallSink& sink) {
    const JsonScanner::Step step = scanner_.push(byte);
    if (step != JsonScanner::Step::kBad) sink.arguments({&byte, 1});
    return step;
  }

 private:
  JsonScanner scanner_;
};

}  // namespace forerun::server
