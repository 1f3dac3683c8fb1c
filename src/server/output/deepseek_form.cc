#include "server/output/deepseek_form.h"

namespace forerun::server {
namespace {

constexpr std::string_view kCallBegin = "<｜tool▁call▁begin｜>";
constexpr std::string_view kCallEnd = "<｜tool▁call▁end｜>";
constexpr std::string_view kCallsEnd = "<｜tool▁calls▁end｜>";
constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
constexpr std::string_view kFenceOpen = "```json";
constexpr std::string_view kFenceClose = "```";

}  // namespace

CallForm::Step DeepSeekForm::in_call_tag(char byte) {
  if (tag_.empty() && is_json_space(byte)) return Step::kMore;
  tag_ += byte;
  if (tag_ == kCallsEnd) return has_call_ ? Step::kEnd : Step::kBad;
  if (tag_ == kCallBegin) {
    reading_ = Reading::kHead;
    head_.clear();
    return Step::kMore;
  }
  return kCallBegin.starts_with(tag_) || kCallsEnd.starts_with(tag_) ? Step::kMore : Step::kBad;
}

CallForm::Step DeepSeekForm::in_head(char byte) {
  head_ += byte;
  if (head_.ends_with(kSeparator)) {
    head_.resize(head_.size() - kSeparator.size());
    name_.clear();
    reading_ = Reading::kStart;
    return Step::kMore;
  }
  const bool fits = head_.size() <= kMaxToolNameBytes + kSeparator.size() && byte != '\n';
  return fits ? Step::kMore : Step::kBad;
}

CallForm::Step DeepSeekForm::at_start(char byte, CallSink& sink) {
  if (is_json_space(byte)) return Step::kMore;
  if (byte == '{') {
    reading_ = Reading::kArguments;
    return call_.begin(head_, "", sink) ? Step::kMore : Step::kBad;
  }
  reading_ = Reading::kName;
  name_ = byte;
  return Step::kMore;
}

CallForm::Step DeepSeekForm::in_fence(char byte, CallSink& sink) {
  if (is_json_space(byte) && (tag_.empty() || tag_ == kFenceOpen)) return Step::kMore;
  if (byte == '{' && (tag_.empty() || tag_ == kFenceOpen)) {
    reading_ = Reading::kArguments;
    return call_.begin(name_, "", sink) ? Step::kMore : Step::kBad;
  }
  tag_ += byte;
  return kFenceOpen.starts_with(tag_) ? Step::kMore : Step::kBad;
}

CallForm::Step DeepSeekForm::in_tail(char byte) {
  if (is_json_space(byte) && (tag_.empty() || tag_ == kFenceClose)) return Step::kMore;
  if (tag_ == kFenceClose) tag_.clear();
  tag_ += byte;
  if (tag_ == kCallEnd) {
    tag_.clear();
    reading_ = Reading::kCall;
    return Step::kCallDone;
  }
  return kFenceClose.starts_with(tag_) || kCallEnd.starts_with(tag_) ? Step::kMore : Step::kBad;
}

CallForm::Step DeepSeekForm::push(char byte, CallSink& sink) {
  switch (reading_) {
    case Reading::kCall:
      return in_call_tag(byte);
    case Reading::kHead:
      return in_head(byte);
    case Reading::kStart:
      return at_start(byte, sink);
    case Reading::kName:
      if (byte == '\n') {
        tag_.clear();
        reading_ = Reading::kFence;
        return sink.may_call(name_) ? Step::kMore : Step::kBad;
      }
      name_ += byte;
      return name_.size() > kMaxToolNameBytes ? Step::kBad : Step::kMore;
    case Reading::kFence:
      return in_fence(byte, sink);
    case Reading::kArguments: {
      const JsonScanner::Step step = call_.push(byte, sink);
      if (step == JsonScanner::Step::kBad) return Step::kBad;
      if (step == JsonScanner::Step::kMore) return Step::kMore;
      tag_.clear();
      has_call_ = true;
      reading_ = Reading::kTail;
      return Step::kCallDone;
    }
    case Reading::kTail:
      return in_tail(byte);
  }
  return Step::kBad;
}

bool DeepSeekForm::finish(CallSink& /*sink*/) {
  return reading_ == Reading::kArguments || reading_ == Reading::kTail ||
         (reading_ == Reading::kCall && has_call_);
}

}  // namespace forerun::server
