#include "server/output/call_object.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace forerun::server {
namespace {

// Reads the text of a JSON string; returns false if it is invalid (a lone surrogate, broken UTF-8).
bool read_string(const std::string& json, std::string& text) {
  const auto value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!value.is_string()) return false;
  text = value.get<std::string>();
  return true;
}

}  // namespace

bool CallObject::begin_value(char byte) {
  raw_.clear();
  reading_ = Reading::kOther;
  if (key_ == "name" || (key_ == "id" && rules_.has_id)) {
    std::string& text = key_ == "name" ? name_ : id_;
    reading_ = key_ == "name" ? Reading::kName : Reading::kId;
    return byte == '"' && text.empty();
  }
  if (key_ != "arguments" && key_ != "parameters") return true;
  if (std::exchange(has_arguments_, true)) return false;
  reading_ = byte == '"'   ? Reading::kArgumentsText
             : byte == 'n' ? Reading::kArgumentsNull
                           : Reading::kArguments;
  return byte == '"' || byte == 'n' || byte == '{';
}

void CallObject::put_out(CallSink& sink, bool waits_for_id) {
  if (!has_begun_) {
    if (name_.empty() || !has_arguments_ || (waits_for_id && id_.empty())) return;
    sink.begin_call(name_, id_);
    has_begun_ = true;
  }
  sink.arguments(arguments_);
  arguments_.clear();
}

bool CallObject::end_reading(CallSink& sink) {
  switch (std::exchange(reading_, Reading::kNothing)) {
    case Reading::kKey:
      return read_string(raw_, key_);
    case Reading::kName:
      return read_string(raw_, name_) && sink.may_call(name_);
    case Reading::kId:
      return read_string(raw_, id_);
    case Reading::kArgumentsText: {
      const bool is_object = read_string(raw_, arguments_) &&
                             nlohmann::json::parse(arguments_, nullptr, false).is_object();
      if (!is_object) arguments_.clear();
      return is_object;
    }
    case Reading::kArgumentsNull:
      arguments_ = "{}";
      return true;
    default:
      return true;
  }
}

CallForm::Step CallObject::end_object(CallSink& sink) {
  if (name_.empty()) return Step::kBad;
  if (!has_arguments_) {
    if (rules_.needs_arguments) return Step::kBad;
    has_arguments_ = true;
    arguments_ = "{}";
  }
  put_out(sink, /*waits_for_id=*/false);
  return Step::kCallDone;
}

CallForm::Step CallObject::push(char byte, CallSink& sink) {
  const bool is_outermost = scanner_.depth() == 1;
  const bool is_space = byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
  if (reading_ == Reading::kNothing && is_outermost && !is_space) {
    if (scanner_.expects_key() && byte == '"') {
      reading_ = Reading::kKey;
      raw_.clear();
    } else if (scanner_.expects_value() && !begin_value(byte)) {
      return Step::kBad;
    }
  }
  const JsonScanner::Step step = scanner_.push(byte);
  if (step == JsonScanner::Step::kBad) return Step::kBad;
  if (reading_ == Reading::kArguments) {
    arguments_ += byte;
  } else if (reading_ != Reading::kNothing && reading_ != Reading::kOther) {
    raw_ += byte;
  }
  // A number ends only where the next token begins.
  const bool is_over =
      scanner_.depth() <= 1 &&
      (scanner_.expects_next() || scanner_.expects_key() || scanner_.expects_colon());
  if (reading_ != Reading::kNothing && is_over && !end_reading(sink)) return Step::kBad;
  if (step == JsonScanner::Step::kEnd) return end_object(sink);
  if (!reads_whole_arguments()) put_out(sink, rules_.has_id);
  return Step::kMore;
}

bool CallObject::finish(CallSink& sink) {
  if (!reads_whole_arguments()) put_out(sink, /*waits_for_id=*/false);
  return has_begun_;
}

}  // namespace forerun::server
