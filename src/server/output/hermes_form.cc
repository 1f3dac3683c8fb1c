#include "server/output/hermes_form.h"

#include "server/output/call_object.h"
#include "server/output/xml_form.h"

namespace forerun::server {

CallForm::Step HermesForm::push(char byte, CallSink& sink) {
  if (is_closing_) {
    const Literal::Step step = close_.push(byte);
    if (step == Literal::Step::kBad) return Step::kBad;
    return step == Literal::Step::kEnd ? Step::kEnd : Step::kMore;
  }
  if (call_ == nullptr) {
    if (byte == '{' && !open_function_.has_begun()) {
      call_ = std::make_unique<CallObject>(CallObjectRules{});
    } else {
      const Literal::Step step = open_function_.push(byte);
      if (step == Literal::Step::kEnd) call_ = std::make_unique<XmlForm>();
      return step == Literal::Step::kBad ? Step::kBad : Step::kMore;
    }
  }
  const Step step = call_->push(byte, sink);
  if (step == Step::kBad || step == Step::kMore) return step;
  is_closing_ = true;
  return Step::kCallDone;
}

}  // namespace forerun::server
