#include "base/log.h"

#include <mutex>
#include <utility>

namespace forerun {
namespace {

struct SinkHolder {
  std::mutex mutex;
  LogSink sink;
};

SinkHolder& holder() {
  static SinkHolder instance;
  return instance;
}

}  // namespace

void set_log_sink(LogSink sink) {
  std::lock_guard lock(holder().mutex);
  holder().sink = std::move(sink);
}

void log_line(LogLevel level, std::string_view line) {
  std::lock_guard lock(holder().mutex);
  if (holder().sink) holder().sink(level, line);
}

}  // namespace forerun
