#include "server/output/xml_form.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace forerun::server {
namespace {

constexpr std::string_view kParameter = "<parameter=";
constexpr std::string_view kEndFunction = "</function>";
constexpr std::string_view kEndParameter = "</parameter>";

// Returns the text in the escapes of a JSON string, byte by byte: characters beyond ASCII stay
// unchanged.
std::string escaped(std::string_view text) {
  std::string json;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (byte == '"' || byte == '\\') {
      json += '\\';
      json += byte;
    } else if (byte == '\n') {
      json += "\\n";
    } else if (byte == '\t') {
      json += "\\t";
    } else if (code < 0x20) {
      constexpr std::string_view kHex = "0123456789abcdef";
      json += "\\u00";
      json += kHex[code >> 4];
      json += kHex[code & 15];
    } else {
      json += byte;
    }
  }
  return json;
}

std::string json_string(std::string_view text) { return '"' + escaped(text) + '"'; }

// Returns JSON for a value of type `type`, or of unknown type if that is empty.
std::string value_json(const std::string& text, std::string_view type) {
  if (type == "boolean" || type.empty()) {
    // Python's spelling, which some models write.
    if (text == "True") return "true";
    if (text == "False") return "false";
  }
  if (text == "None" && type == "null") return "null";
  const auto value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return json_string(text);
  // Without a type the text need not be JSON, so quotes belong to the text.
  if (value.is_string() && type.empty()) return json_string(text);
  return text;
}

}  // namespace

CallForm::Step XmlForm::in_name(char byte, CallSink& sink) {
  if (byte == '>') {
    reading_ = Reading::kTag;
    return sink.may_call(name_) ? Step::kMore : Step::kBad;
  }
  name_ += byte;
  return byte == '<' || byte == '\n' || name_.size() > kMaxToolNameBytes ? Step::kBad : Step::kMore;
}

CallForm::Step XmlForm::in_tag(char byte, CallSink& sink) {
  if (tag_.empty() && is_json_space(byte)) return Step::kMore;
  tag_ += byte;
  if (tag_ == kParameter || tag_ == kEndFunction) {
    if (!has_begun_) {
      sink.begin_call(name_, "");
      sink.arguments("{");
      has_begun_ = true;
    }
    if (tag_ == kEndFunction) {
      sink.arguments("}");
      return Step::kEnd;
    }
    tag_.clear();
    key_.clear();
    reading_ = Reading::kKey;
    return Step::kMore;
  }
  return kParameter.starts_with(tag_) || kEndFunction.starts_with(tag_) ? Step::kMore : Step::kBad;
}

void XmlForm::begin_argument(CallSink& sink) {
  sink.arguments((has_arguments_ ? ", " : "") + json_string(key_) + ": ");
  has_arguments_ = true;
  streams_ = sink.tools().argument_type(name_, key_) == "string";
  if (streams_) sink.arguments("\"");
  value_.clear();
  at_value_start_ = true;
  holds_newline_ = false;
  close_.clear();
  reading_ = Reading::kValue;
}

void XmlForm::put_value(std::string_view text, CallSink& sink) {
  const std::string whole = (holds_newline_ ? "\n" : "") + std::string(text);
  holds_newline_ = false;
  if (streams_) {
    sink.arguments(escaped(whole));
  } else {
    value_ += whole;
  }
}

void XmlForm::end_value(CallSink& sink) {
  const std::string_view type = sink.tools().argument_type(name_, key_);
  sink.arguments(streams_ ? "\"" : value_json(value_, type));
  reading_ = Reading::kTag;
}

CallForm::Step XmlForm::in_value(char byte, CallSink& sink) {
  close_ += byte;
  if (close_ == kEndParameter) {
    end_value(sink);
    return Step::kMore;
  }
  if (kEndParameter.starts_with(close_)) {
    at_value_start_ = false;
    return Step::kMore;
  }
  // The tag has only one '<', so no later part of the held text can begin it again.
  close_.pop_back();
  if (!close_.empty()) {
    put_value(close_, sink);
    close_.clear();
    return in_value(byte, sink);
  }
  if (byte == '\n' && std::exchange(at_value_start_, false)) return Step::kMore;
  at_value_start_ = false;
  if (byte == '\n') {
    if (holds_newline_) put_value("", sink);
    holds_newline_ = true;
  } else {
    put_value({&byte, 1}, sink);
  }
  return Step::kMore;
}

CallForm::Step XmlForm::push(char byte, CallSink& sink) {
  switch (reading_) {
    case Reading::kName:
      return in_name(byte, sink);
    case Reading::kTag:
      return in_tag(byte, sink);
    case Reading::kKey:
      if (byte == '>') {
        begin_argument(sink);
        return Step::kMore;
      }
      key_ += byte;
      return byte == '<' || byte == '\n' || key_.size() > kMaxToolNameBytes ? Step::kBad
                                                                            : Step::kMore;
    case Reading::kValue:
      return in_value(byte, sink);
  }
  return Step::kBad;
}

bool XmlForm::finish(CallSink& sink) {
  if (reading_ != Reading::kValue || streams_ || value_.empty()) return has_begun_;
  // Emits the part of the value that is certain for any continuation.
  constexpr std::string_view kBeginsJson = "{[-0123456789";
  const bool may_be_json = kBeginsJson.find(value_.front()) != std::string_view::npos;
  sink.arguments(may_be_json ? value_ : '"' + escaped(value_));
  return true;
}

}  // namespace forerun::server
