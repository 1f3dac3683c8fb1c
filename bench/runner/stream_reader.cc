#include "runner/stream_reader.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace forerun::bench {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void StreamReader::add(size_t request, std::shared_ptr<RequestStream> stream) {
  streams_.push_back({request, std::move(stream), now_s()});
}

void StreamReader::take(Source& source, std::chrono::milliseconds timeout) {
  std::optional<Event> event = source.stream->next_for(timeout);
  if (!event) return;
  source.last_event_s = now_s();
  source.decodes = true;
  if (event->finished) source.stream.reset();
  read_.push_back({source.request, source.last_event_s, *std::move(event)});
}

void StreamReader::look_at_all() {
  for (Source& source : streams_) take(source, std::chrono::milliseconds(0));
}

StreamReader::Source& StreamReader::next_in_turn() {
  return *std::min_element(streams_.begin(), streams_.end(), [](const Source& a, const Source& b) {
    return a.decodes != b.decodes ? a.decodes : a.last_event_s < b.last_event_s;
  });
}

std::optional<ReadEvent> StreamReader::next(double until_s) {
  while (read_.empty()) {
    const double now = now_s();
    if (now >= until_s || (streams_.empty() && until_s == kNever)) return std::nullopt;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        std::chrono::duration<double>(std::min(until_s - now, 1.0)));
    if (streams_.empty()) {
      std::this_thread::sleep_for(left);
      continue;
    }
    if (now - last_look_s_ >= std::chrono::duration<double>(kLookEvery).count()) {
      look_at_all();
      last_look_s_ = now_s();
    } else {
      take(next_in_turn(), std::min(left, kLookEvery));
    }
    std::erase_if(streams_, [](const Source& source) { return source.stream == nullptr; });
  }
  ReadEvent first = std::move(read_.front());
  read_.pop_front();
  return first;
}

void StreamReader::cancel(size_t request) {
  for (Source& source : streams_) {
    if (source.request == request) source.stream->cancel();
  }
}

void StreamReader::cancel_all() {
  for (Source& source : streams_) source.stream->cancel();
}

}  // namespace forerun::bench
