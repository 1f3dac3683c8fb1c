#include "engine/event_queue.h"

#include <unistd.h>

#include <iterator>
#include <utility>

namespace forerun {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// What came later goes behind what is unread; how the request ended is the later one's to say.
Event joined(Event earlier, Event later) {
  later.text.insert(0, earlier.text);
  const auto join = [](auto& before, auto& after) {
    append(before, std::move(after));
    after = std::move(before);
  };
  join(earlier.tokens, later.tokens);
  join(earlier.drafted, later.drafted);
  join(earlier.logprobs, later.logprobs);
  join(earlier.rounds, later.rounds);
  return later;
}

}  // namespace

EventStream::EventStream(std::shared_ptr<EventQueue> queue, std::shared_ptr<CancelFlag> cancel,
                         uint64_t tag)
    : queue_(std::move(queue)), cancel_(std::move(cancel)), tag_(tag) {}

std::shared_ptr<EventStream> EventStream::open(std::shared_ptr<EventQueue> queue,
                                               std::shared_ptr<CancelFlag> cancel, uint64_t tag) {
  std::shared_ptr<EventStream> stream(new EventStream(std::move(queue), std::move(cancel), tag));
  stream->queue_->opened();
  return stream;
}

void EventStream::push(Event event) { queue_->push(*this, std::move(event)); }

bool EventStream::cancelled() const { return cancel_->is_set() || queue_->is_closed(); }

EventQueue::~EventQueue() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void EventQueue::opened() {
  const std::lock_guard lock(mutex_);
  ++outstanding_;
}

int64_t EventQueue::outstanding() const {
  const std::lock_guard lock(mutex_);
  return outstanding_;
}

// Called when the queue stops or begins being empty: one system call then, none in between.
void EventQueue::signal(bool readable) {
  if (descriptor_ < 0) return;
  uint64_t count = 1;
  // An eventfd fails only where its count overflows, or is read at zero; neither happens here.
  [[maybe_unused]] const ssize_t moved = readable ? ::write(descriptor_, &count, sizeof(count))
                                                  : ::read(descriptor_, &count, sizeof(count));
}

void EventQueue::push(EventStream& stream, Event event) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closed()) return;
    if (stream.unread_) {
      *stream.unread_ = joined(std::move(*stream.unread_), std::move(event));
      return;  // whoever waits has been told
    }
    stream.unread_ = std::move(event);
    const bool was_empty = first_ == nullptr;
    (was_empty ? first_ : last_->next_) = stream.shared_from_this();
    last_ = &stream;
    if (was_empty) signal(true);
  }
  changed_.notify_one();
}

std::optional<Completion> EventQueue::take(std::optional<std::chrono::milliseconds> timeout,
                                           bool until_drained) {
  std::unique_lock lock(mutex_);
  const auto is_over = [&] { return first_ != nullptr || (until_drained && outstanding_ == 0); };
  if (timeout) {
    changed_.wait_for(lock, *timeout, is_over);
  } else {
    changed_.wait(lock, is_over);
  }
  if (first_ == nullptr) return std::nullopt;
  const std::shared_ptr<EventStream> stream = std::move(first_);
  first_ = std::move(stream->next_);
  if (first_ == nullptr) {
    last_ = nullptr;
    signal(false);
  }
  Completion completion{stream->tag_, std::move(*stream->unread_)};
  stream->unread_.reset();
  if (completion.event.finished && --outstanding_ == 0) changed_.notify_all();
  lock.unlock();
  return completion;
}

void EventQueue::close() {
  std::shared_ptr<EventStream> dropped;
  {
    const std::lock_guard lock(mutex_);
    closed_.store(true, std::memory_order_release);
    dropped = std::move(first_);
    last_ = nullptr;
  }
  // One by one: their links would otherwise be destroyed by recursion.
  while (dropped != nullptr) dropped = std::exchange(dropped->next_, nullptr);
}

}  // namespace forerun
