#include "supervisor/message.h"

#include <utility>

#include "base/status_macros.h"
#include "supervisor/message_fields.h"

namespace forerun {
namespace {

using nlohmann::json;

// Deeper JSON is no message, and reading it would recurse as deep.
constexpr int kDeepest = 16;

Result<json> parse(std::string_view line) {
  bool too_deep = false;
  const auto watch_depth = [&too_deep](int depth, json::parse_event_t, const json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  json object = json::parse(line, watch_depth, /*allow_exceptions=*/false);
  if (object.is_object() && !too_deep) return object;
  constexpr size_t kShown = 80;
  return Status(StatusCode::kCorrupt, "message: found '" + std::string(line.substr(0, kShown)) +
                                          "'; accepted: a JSON object");
}

template <class T>
std::string write(const T& message) {
  return StructWriter::to_json(message).dump(-1, ' ', false, json::error_handler_t::replace);
}

template <class T>
Result<T> read(std::string_view line) {
  FORERUN_ASSIGN_OR_RETURN(const json object, parse(line));
  T message;
  Status status;
  StructReader reader(object, status);
  visit_fields(reader, message);
  if (!status.ok()) return status.with_context("message");
  return message;
}

}  // namespace

std::string write_message(const DownMessage& message) { return write(message); }
std::string write_message(const UpMessage& message) { return write(message); }
Result<DownMessage> read_down_message(std::string_view line) { return read<DownMessage>(line); }
Result<UpMessage> read_up_message(std::string_view line) { return read<UpMessage>(line); }

std::string write_options(const EngineOptions& options) { return write(options); }
Result<EngineOptions> read_options(std::string_view text) { return read<EngineOptions>(text); }

}  // namespace forerun
