#include "serving/null_engine.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "engine/loop/request_handles.h"

namespace forerun::bench {

Result<std::unique_ptr<NullEngine>> NullEngine::create(const Options& options) {
  FORERUN_ASSIGN_OR_RETURN(OpenedModel model, open_model(options.model));
  return std::unique_ptr<NullEngine>(new NullEngine(options, std::move(model)));
}

NullEngine::NullEngine(const Options& options, OpenedModel model)
    : options_(options),
      model_(std::move(model)),
      text_(model_),
      load_(int64_t{options.max_active} + options.max_waiting) {
  info_.model_name = "null";
  info_.numeric_fingerprint = "null";
  info_.max_context_tokens = model_.checkpoint.config().max_position;
  info_.vocab_size = model_.live_vocab();
  info_.eos_token_ids = model_.eos_token_ids();
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), kThreadName);
}

NullEngine::~NullEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Result<std::shared_ptr<RequestChannel>> NullEngine::enqueue(const Request& request,
                                                            std::shared_ptr<EventQueue> queue,
                                                            uint64_t tag) {
  FORERUN_ASSIGN_OR_RETURN(auto places, load_.take_places(request.num_samples));
  auto channel = RequestChannel::open(std::move(queue), tag, request.num_samples, {});
  const std::lock_guard lock(mutex_);
  for (int32_t idx = 0; idx < request.num_samples; ++idx) {
    Running running;
    running.stream = std::make_shared<EventStream>(channel, idx);
    running.place = std::move(places[static_cast<size_t>(idx)]);
    running.stats.strategy = "none";
    running.tokens_left = std::max(request.max_new_tokens, 1);
    running.submitted = Clock::now();
    submitted_.push_back(std::move(running));
  }
  changed_.notify_one();
  return channel;
}

Result<std::shared_ptr<RequestStream>> NullEngine::submit(Request request) {
  FORERUN_ASSIGN_OR_RETURN(auto channel, enqueue(request, std::make_shared<EventQueue>(), 0));
  return std::shared_ptr<RequestStream>(std::make_shared<PulledRequest>(std::move(channel)));
}

Result<std::shared_ptr<RequestHandle>> NullEngine::submit(Request request, CompletionQueue& queue,
                                                          uint64_t tag) {
  FORERUN_ASSIGN_OR_RETURN(auto channel, enqueue(request, queue.events(), tag));
  return std::shared_ptr<RequestHandle>(std::make_shared<QueuedRequest>(std::move(channel)));
}

bool NullEngine::take_submissions() {
  const size_t room = static_cast<size_t>(options_.max_active) - running_.size();
  const auto count = static_cast<std::ptrdiff_t>(std::min(room, submitted_.size()));
  std::move(submitted_.begin(), submitted_.begin() + count, std::back_inserter(running_));
  submitted_.erase(submitted_.begin(), submitted_.begin() + count);
  load_.set_running(running_.size());
  return !running_.empty();
}

void NullEngine::run() {
  Clock::time_point due = Clock::now();
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !running_.empty() || !submitted_.empty(); });
      take_submissions();
      if (stopping_) break;
    }
    due = std::max(due + options_.step, Clock::now());
    std::this_thread::sleep_until(due);
    step();
  }
  for (std::vector<Running>* list : {&running_, &submitted_}) {
    for (Running& each : *list) {
      Event event;
      event.finished = true;
      event.reason = FinishReason::kCancelled;
      each.stream->push(std::move(event));
    }
  }
}

void NullEngine::step() {
  for (Running& each : running_) {
    if (!send_tokens(each)) each.stream.reset();
  }
  std::erase_if(running_, [](const Running& each) { return each.stream == nullptr; });
}

bool NullEngine::send_tokens(Running& running) {
  const Clock::time_point now = Clock::now();
  Event event;
  if (running.stream->cancelled()) {
    event.finished = true;
    event.reason = FinishReason::kCancelled;
  } else {
    if (running.stats.output_tokens == 0) running.first_token = now;
    const int32_t count = std::min(options_.tokens_per_step, running.tokens_left);
    event.text = std::to_string(now.time_since_epoch().count()) + " ";
    event.tokens.assign(static_cast<size_t>(count), 0);
    event.drafted.assign(static_cast<size_t>(count), false);
    event.time_s = std::chrono::duration<double>(now - running.submitted).count();
    running.tokens_left -= count;
    running.stats.output_tokens += count;
    ++running.stats.target_steps;
    event.finished = running.tokens_left == 0;
    event.reason = FinishReason::kLength;
  }
  const bool goes_on = !event.finished;
  if (event.finished) {
    const auto seconds = [](Clock::duration time) {
      return std::chrono::duration<double>(time).count();
    };
    running.stats.time_to_first_token_s = seconds(running.first_token - running.submitted);
    running.stats.decode_s = seconds(now - running.first_token);
    event.stats = running.stats;
    running.place.give_back();  // before its reader can ask for another
  }
  running.stream->push(std::move(event));
  return goes_on;
}

}  // namespace forerun::bench
