#include "forerun/completion_queue.h"

#include <sys/eventfd.h>

#include <cstring>
#include <utility>

#include "engine/loop/event_queue.h"

namespace forerun {

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::create() {
  const int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (descriptor < 0) {
    return Status(StatusCode::kResourceExhausted,
                  std::string("completion queue: no descriptor: ") + std::strerror(errno));
  }
  return std::unique_ptr<CompletionQueue>(
      new CompletionQueue(std::make_shared<EventQueue>(descriptor)));
}

CompletionQueue::CompletionQueue(std::shared_ptr<EventQueue> events) : events_(std::move(events)) {}
CompletionQueue::~CompletionQueue() { events_->close(); }

std::optional<Completion> CompletionQueue::poll() {
  return events_->take(std::chrono::milliseconds(0), /*until_drained=*/true);
}
std::optional<Completion> CompletionQueue::next() {
  return events_->take(std::nullopt, /*until_drained=*/true);
}
std::optional<Completion> CompletionQueue::next_for(std::chrono::milliseconds timeout) {
  return events_->take(timeout, /*until_drained=*/false);
}
int CompletionQueue::fd() const { return events_->descriptor(); }
int64_t CompletionQueue::outstanding() const { return events_->outstanding(); }

}  // namespace forerun
