// CallList parses calls that are written as a JSON list of objects (see CallObject).
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "server/output/call_form.h"
#include "server/output/call_object.h"
#include "server/output/literal.h"

namespace forerun::server {

class CallList : public CallForm {
 public:
  explicit CallList(CallObjectRules rules) : rules_(rules) {}

  // Takes the list from its '[' on, with white space before it allowed; returns kEnd at its ']'.
  Step push(char byte, CallSink& sink) override;
  bool finish(CallSink& sink) override { return object_ ? object_->finish(sink) : has_call_; }

 private:
  enum class Reading : uint8_t { kOpen, kItem, kObject, kComma };

  CallObjectRules rules_;
  Reading reading_ = Reading::kOpen;
  std::optional<CallObject> object_;
  bool has_call_ = false;
};

// Parses a list between two tags; the second tag may be missing.
class TaggedListForm : public CallForm {
 public:
  // `close` must outlive the object.
  explicit TaggedListForm(std::string_view close) : close_(close) {}

  Step push(char byte, CallSink& sink) override;
  bool finish(CallSink& sink) override { return is_closing_ || list_.finish(sink); }

 private:
  CallList list_{CallObjectRules{}};
  Literal close_;
  bool is_closing_ = false;
};

}  // namespace forerun::server
