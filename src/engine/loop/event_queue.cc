#include "engine/loop/event_queue.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/later.h"
#include "base/status_macros.h"

namespace forerun {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Appends a later event to the unread one; the later event has the sample's finish reason.
void join(Event& unread, Event& later) {
  unread.text += later.text;
  later.text = std::move(unread.text);
  const auto prepend = [](auto& before, auto& after) {
    append(before, std::move(after));
    after = std::move(before);
  };
  prepend(unread.tokens, later.tokens);
  prepend(unread.drafted, later.drafted);
  prepend(unread.logprobs, later.logprobs);
  prepend(unread.prompt_logprobs, later.prompt_logprobs);
  prepend(unread.rounds, later.rounds);
  later.time_s = std::max(unread.time_s, later.time_s);
  unread = std::move(later);
}

}  // namespace

RequestChannel::RequestChannel(std::shared_ptr<EventQueue> queue, uint64_t tag, int32_t num_samples,
                               EngineSide engine)
    : queue_(std::move(queue)),
      tag_(tag),
      engine_(std::move(engine)),
      running_samples_(num_samples),
      unread_samples_(num_samples) {}

std::shared_ptr<RequestChannel> RequestChannel::open(std::shared_ptr<EventQueue> queue,
                                                     uint64_t tag, int32_t num_samples,
                                                     EngineSide engine) {
  std::shared_ptr<RequestChannel> channel(
      new RequestChannel(std::move(queue), tag, num_samples, std::move(engine)));
  channel->queue_->opened();
  return channel;
}

void RequestChannel::cancel() {
  cancelled_.store(true, std::memory_order_release);
  wake();
}

// Handles are usually destroyed after their requests have ended; the loop then need not wake.
void RequestChannel::wake() {
  if (engine_.wake && running_samples_.load(std::memory_order_acquire) > 0) engine_.wake();
}

Status RequestChannel::change_speculation(const SpeculationOptions& options) {
  if (!engine_.resolve) return Status(StatusCode::kInternal, "no engine resolves these options");
  FORERUN_ASSIGN_OR_RETURN(PlanPtr plan, engine_.resolve(options));
  {
    const std::lock_guard lock(mutex_);
    wanted_plan_ = std::move(plan);
    has_wanted_plan_.store(true, std::memory_order_release);
  }
  wake();
  return {};
}

RequestChannel::PlanPtr RequestChannel::wanted_plan() const {
  if (!has_wanted_plan_.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard lock(mutex_);
  return wanted_plan_;
}

bool RequestChannel::cancelled() const {
  return cancelled_.load(std::memory_order_acquire) || queue_->is_closed();
}

EventStream::EventStream(std::shared_ptr<RequestChannel> channel, int32_t sample_idx)
    : channel_(std::move(channel)), sample_idx_(sample_idx) {}

void EventStream::push(Event event) { channel_->queue().push(*this, &event); }
void EventStream::push_out_of_memory() noexcept { channel_->queue().push(*this, nullptr); }

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

// Called only when the queue becomes empty or non-empty, so that no other event costs a system
// call.
void EventQueue::signal(bool readable) {
  if (descriptor_ < 0) return;
  uint64_t count = 1;
  // An eventfd fails only if its count overflows, or if it is read at zero; neither happens here.
  [[maybe_unused]] const ssize_t moved = readable ? ::write(descriptor_, &count, sizeof(count))
                                                  : ::read(descriptor_, &count, sizeof(count));
}

void EventQueue::push(EventStream& stream, Event* event) {
  const bool is_last = event == nullptr || event->finished;
  // If it throws, the stream's last event is still to come.
  const bool is_news = keep(stream, event);
  if (is_last) stream.channel_->running_samples_.fetch_sub(1, std::memory_order_acq_rel);
  if (is_news) changed_.notify_one();
}

bool EventQueue::keep(EventStream& stream, Event* event) {
  const std::lock_guard lock(mutex_);
  if (is_closed()) return false;
  if (event == nullptr) {
    stream.out_of_memory_ = true;
  } else if (stream.has_unread_) {
    join(stream.unread_, *event);
  } else {
    stream.unread_ = std::move(*event);
  }
  if (stream.has_unread_) return false;  // the reader has already been woken
  stream.has_unread_ = true;
  const bool was_empty = first_ == nullptr;
  (was_empty ? first_ : last_->next_) = stream.shared_from_this();
  last_ = &stream;
  if (was_empty) signal(true);
  return true;
}

std::optional<Completion> EventQueue::take(std::optional<std::chrono::milliseconds> timeout,
                                           bool until_drained) {
  std::unique_lock lock(mutex_);
  const auto is_over = [&] { return first_ != nullptr || (until_drained && outstanding_ == 0); };
  if (timeout) {
    changed_.wait_until(lock, later(std::chrono::steady_clock::now(), *timeout), is_over);
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
  RequestChannel& channel = *stream->channel_;
  Completion completion{channel.tag_, std::exchange(stream->unread_, Event{})};
  stream->has_unread_ = false;
  Event& event = completion.event;
  event.sample_idx = stream->sample_idx_;
  const bool out_of_memory = stream->out_of_memory_;
  event.finished |= out_of_memory;
  event.last = event.finished && --channel.unread_samples_ == 0;
  if (event.last && --outstanding_ == 0) changed_.notify_all();
  lock.unlock();
  if (out_of_memory) {
    event.reason = FinishReason::kError;
    event.error = Status(StatusCode::kResourceExhausted,
                         "the process ran out of memory while the request ran");
  }
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
  // Drops them one by one: otherwise their links would be destroyed by recursion.
  while (dropped != nullptr) dropped = std::exchange(dropped->next_, nullptr);
}

}  // namespace forerun
