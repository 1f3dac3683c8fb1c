#include "wire/wire_reader.h"

namespace forerun {

void WireReader::same(const char* name, std::string_view text, const char* why) {
  const auto found = get<std::string>(name);
  if (found == text) return;
  constexpr size_t kShown = 80;
  fail(name, "found '" + found.substr(0, kShown) + "'; accepted: '" + std::string(text) + "' (" +
                 why + ")");
}

void WireReader::fail(const char* name, const std::string& what) {
  if (!ok()) return;
  refuse(what);
  add_context(name);
}

Status WireReader::status() const {
  return ok() ? Status() : Status(StatusCode::kCorrupt, "message: " + failure_);
}

Status WireReader::finish() {
  if (!rest_.empty()) {
    fail("end", "found " + std::to_string(rest_.size()) + " more bytes; accepted: none");
  }
  return status();
}

void WireReader::read(std::vector<bool>& items) {
  const size_t length = count(1);
  items.assign(length, false);
  for (size_t idx = 0; idx < length && ok(); ++idx) {
    bool item = false;
    read_bool(item);
    items[idx] = item;
  }
}

void WireReader::read(std::chrono::milliseconds& time) {
  int64_t ticks = 0;
  read(ticks);
  time = std::chrono::milliseconds(ticks);
}

void WireReader::read(Status& status) {
  StatusParts parts;
  visit_fields(*this, parts);
  status = parts.code == StatusCode::kOk
               ? Status()
               : Status(parts.code, std::move(parts.message)).with_retry_after(parts.retry_after);
}

void WireReader::read_bool(bool& value) {
  uint8_t byte = 0;
  take(&byte, sizeof(byte));
  if (byte > 1) return refuse("found " + std::to_string(byte) + "; accepted: 0 or 1");
  value = byte == 1;
}

size_t WireReader::count(size_t item_bytes) {
  uint64_t items = 0;
  take(&items, sizeof(items));
  if (items <= rest_.size() / item_bytes) return static_cast<size_t>(items);
  refuse("found " + std::to_string(items) + " items of at least " + std::to_string(item_bytes) +
         " bytes, left are " + std::to_string(rest_.size()) + " bytes");
  return 0;
}

void WireReader::refuse(std::string what) {
  if (failed_) return;
  failed_ = true;
  failure_ = std::move(what);
  rest_ = {};
}

void WireReader::refuse_short(size_t needed) {
  refuse("found " + std::to_string(rest_.size()) + " bytes, needed are " + std::to_string(needed));
}

void WireReader::add_context(const char* name) { failure_ = name + (": " + failure_); }

}  // namespace forerun
