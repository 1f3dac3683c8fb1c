#include "server/output/llama_form.h"

namespace forerun::server {

CallForm::Step LlamaObjectsForm::push(char byte, CallSink& sink) {
  if (!object_) {
    if (is_json_space(byte) || (has_call_ && (byte == ';' || byte == ','))) return Step::kMore;
    if (byte != '{') return Step::kBad;
    // An answer may be JSON that has a name but is not a call.
    object_.emplace(CallObjectRules{.needs_arguments = true});
  }
  const Step step = object_->push(byte, sink);
  if (step == Step::kCallDone) {
    object_.reset();
    has_call_ = true;
  }
  return step;
}

bool LlamaObjectsForm::finish(CallSink& sink) {
  return object_ ? object_->finish(sink) : has_call_;
}

CallForm::Step LlamaFunctionForm::push(char byte, CallSink& sink) {
  switch (reading_) {
    case Reading::kName:
      if (byte == '>') {
        reading_ = Reading::kOpen;
        return sink.may_call(name_) ? Step::kMore : Step::kBad;
      }
      name_ += byte;
      return byte == '<' || byte == '\n' || name_.size() > kMaxToolNameBytes ? Step::kBad
                                                                             : Step::kMore;
    case Reading::kOpen:
      if (is_json_space(byte)) return Step::kMore;
      if (byte != '{') return Step::kBad;
      reading_ = Reading::kArguments;
      has_begun_ = call_.begin(name_, "", sink);
      return has_begun_ ? Step::kMore : Step::kBad;
    case Reading::kArguments: {
      const JsonScanner::Step step = call_.push(byte, sink);
      if (step == JsonScanner::Step::kBad) return Step::kBad;
      if (step == JsonScanner::Step::kMore) return Step::kMore;
      reading_ = Reading::kClose;
      return Step::kCallDone;
    }
    case Reading::kClose: {
      const Literal::Step step = close_.push(byte);
      if (step == Literal::Step::kBad) return Step::kBad;
      return step == Literal::Step::kEnd ? Step::kEnd : Step::kMore;
    }
  }
  return Step::kBad;
}

}  // namespace forerun::server
