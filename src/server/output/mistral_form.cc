#include "server/output/mistral_form.h"

#include <memory>
#include <utility>

#include "server/output/literal.h"

namespace forerun::server {
namespace {

constexpr std::string_view kCallId = "[CALL_ID]";
constexpr std::string_view kArgs = "[ARGS]";

void trim_end(std::string& text) {
  while (!text.empty() && is_json_space(text.back())) text.pop_back();
}

}  // namespace

CallForm::Step MistralForm::at_start(char byte, CallSink& sink) {
  if (is_json_space(byte)) return Step::kMore;
  // The member "id", if there is one, comes last.
  constexpr CallObjectRules kRules{.has_id = true};
  is_list_ = byte == '[';
  if (is_list_) json_ = std::make_unique<CallList>(kRules);
  if (byte == '{') json_ = std::make_unique<CallObject>(kRules);
  if (json_ != nullptr) {
    reading_ = Reading::kJson;
    return in_json(byte, sink);
  }
  reading_ = Reading::kName;
  return in_word(byte, name_, sink);
}

CallForm::Step MistralForm::in_json(char byte, CallSink& sink) {
  const Step step = json_->push(byte, sink);
  return step == Step::kCallDone && !is_list_ ? Step::kEnd : step;
}

CallForm::Step MistralForm::begin_arguments(CallSink& sink) {
  trim_end(name_);
  trim_end(id_);
  reading_ = Reading::kArguments;
  return call_.begin(name_, id_, sink) ? Step::kMore : Step::kBad;
}

CallForm::Step MistralForm::in_word(char byte, std::string& word, CallSink& sink) {
  if (byte == '{' && reading_ == Reading::kName) return begin_arguments(sink);
  if (byte == '[' && !word.empty()) {
    reading_ = Reading::kTag;
    tag_ = byte;
    return Step::kMore;
  }
  word += byte;
  const bool fits = word.size() <= kMaxToolNameBytes && byte != '\n' && byte != '"' &&
                    byte != '[' && byte != '<' && byte != '{';
  return fits ? Step::kMore : Step::kBad;
}

CallForm::Step MistralForm::in_tag(char byte) {
  tag_ += byte;
  // There may be one id, before the arguments.
  const bool may_be_id = id_.empty();
  if (tag_ == kArgs) {
    reading_ = Reading::kOpen;
  } else if (tag_ == kCallId && may_be_id) {
    reading_ = Reading::kId;
  } else if (!kArgs.starts_with(tag_) && !(may_be_id && kCallId.starts_with(tag_))) {
    return Step::kBad;
  }
  return Step::kMore;
}

CallForm::Step MistralForm::push(char byte, CallSink& sink) {
  switch (reading_) {
    case Reading::kStart:
      return at_start(byte, sink);
    case Reading::kJson:
      return in_json(byte, sink);
    case Reading::kName:
      return in_word(byte, name_, sink);
    case Reading::kId:
      return in_word(byte, id_, sink);
    case Reading::kTag:
      return in_tag(byte);
    case Reading::kOpen:
      if (is_json_space(byte)) return Step::kMore;
      return byte == '{' ? begin_arguments(sink) : Step::kBad;
    case Reading::kArguments: {
      const JsonScanner::Step step = call_.push(byte, sink);
      if (step == JsonScanner::Step::kBad) return Step::kBad;
      return step == JsonScanner::Step::kEnd ? Step::kEnd : Step::kMore;
    }
  }
  return Step::kBad;
}

bool MistralForm::finish(CallSink& sink) {
  return json_ != nullptr ? json_->finish(sink) : reading_ == Reading::kArguments;
}

}  // namespace forerun::server
