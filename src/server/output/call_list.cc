#include "server/output/call_list.h"

namespace forerun::server {

CallForm::Step CallList::push(char byte, CallSink& sink) {
  if (reading_ != Reading::kObject && is_json_space(byte)) return Step::kMore;
  switch (reading_) {
    case Reading::kOpen:
      reading_ = Reading::kItem;
      return byte == '[' ? Step::kMore : Step::kBad;
    case Reading::kComma:
      if (byte == ']') return Step::kEnd;
      reading_ = Reading::kItem;
      return byte == ',' ? Step::kMore : Step::kBad;
    case Reading::kItem:
      if (byte != '{') return Step::kBad;
      object_.emplace(rules_);
      reading_ = Reading::kObject;
      break;
    case Reading::kObject:
      break;
  }
  const Step step = object_->push(byte, sink);
  if (step != Step::kCallDone) return step;
  object_.reset();
  has_call_ = true;
  reading_ = Reading::kComma;
  return Step::kCallDone;
}

CallForm::Step TaggedListForm::push(char byte, CallSink& sink) {
  if (!is_closing_) {
    const Step step = list_.push(byte, sink);
    if (step != Step::kEnd) return step;
    is_closing_ = true;
    return Step::kCallDone;
  }
  const Literal::Step step = close_.push(byte);
  if (step == Literal::Step::kBad) return Step::kBad;
  return step == Literal::Step::kEnd ? Step::kEnd : Step::kMore;
}

}  // namespace forerun::server
