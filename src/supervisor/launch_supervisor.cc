#include "supervisor/launch_supervisor.h"

#include <chrono>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "supervisor/engine_totals.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kReadyPoll{50};
// A healthy launch answers within this time.
constexpr milliseconds kLongestAnswer{1000};

// Returns the answer to a call that needs a launch while there is none.
Status no_launch() {
  constexpr milliseconds kComeAgain{1000};
  return Status(StatusCode::kOverloaded,
                "the launch has been lost, and the next one is not ready yet")
      .with_retry_after(kComeAgain);
}

}  // namespace

LaunchSupervisor::LaunchSupervisor(SupervisorOptions options)
    : options_(std::move(options)),
      waker_(std::make_shared<WakeDescriptor>()),
      state_(options_, waker_, [this](uint64_t id) { return engine_side(id); }),
      cycle_(options_, *waker_, state_) {}

std::shared_ptr<LaunchSupervisor> LaunchSupervisor::start(SupervisorOptions options) {
  std::shared_ptr<LaunchSupervisor> supervisor(new LaunchSupervisor(std::move(options)));
  supervisor->thread_ = std::thread([raw = supervisor.get()] { raw->cycle_.run(); });
  return supervisor;
}

LaunchSupervisor::~LaunchSupervisor() { stop(); }

void LaunchSupervisor::stop() {
  {
    const std::lock_guard lock(state_.mutex);
    state_.is_stopping = true;
  }
  waker_->wake();
  if (thread_.joinable()) thread_.join();
}

Result<EngineInfo> LaunchSupervisor::wait_until_ready() {
  std::unique_lock lock(state_.mutex);
  while (!state_.launch.was_ready() && !state_.launch.has_given_up()) {
    state_.changed.wait_for(lock, kReadyPoll);
    const auto progress = std::exchange(state_.progress, std::nullopt);
    lock.unlock();
    if (progress && options_.engine.on_progress) {
      options_.engine.on_progress(progress->first, progress->second);
    }
    if (options_.is_cancelled && options_.is_cancelled()) stop();
    lock.lock();
  }
  if (!state_.launch.was_ready()) return state_.launch.why_given_up();
  return state_.info;
}

Result<std::shared_ptr<RequestChannel>> LaunchSupervisor::submit(Request request,
                                                                 std::shared_ptr<EventQueue> queue,
                                                                 uint64_t tag) {
  std::unique_lock lock(state_.mutex);
  SupervisedRequests& requests = state_.requests;
  if (state_.is_stopping) return Status(StatusCode::kCancelled, "the engine is gone");
  if (state_.launch.has_given_up()) return state_.launch.why_given_up();
  const EngineOptions& engine = options_.engine;
  const int64_t room = int64_t{engine.max_active_requests} + engine.max_waiting_requests;
  const bool is_limited = engine.max_waiting_requests >= 0;
  const bool is_ready = state_.launch.is_ready();
  if (!is_ready && is_limited && requests.num_samples() + request.num_samples > room) {
    return no_launch();
  }
  const uint64_t id = requests.add(std::move(request), std::move(queue), tag);
  const std::shared_ptr<SupervisedRequest> supervised = requests.find(id);
  if (is_ready) {
    const uint64_t call = requests.hand_over_new(id);
    const LaunchCalls::Answer answer = state_.calls.wait(lock, call, kLongestAnswer);
    if (answer.state == LaunchCalls::State::kAnswered && !answer.status.ok()) {
      requests.erase(id);
      return answer.status;
    }
  }
  // Without an answer, the request waits for the answer or for the next launch.
  requests.connect(id);
  return supervised->channel();
}

RequestChannel::EngineSide LaunchSupervisor::engine_side(uint64_t id) {
  using PlanPtr = RequestChannel::PlanPtr;
  const auto change = [supervisor = weak_from_this(),
                       id](const SpeculationOptions& options) -> Result<PlanPtr> {
    const std::shared_ptr<LaunchSupervisor> there = supervisor.lock();
    if (there == nullptr) return PlanPtr();  // it has ended
    FORERUN_RETURN_IF_ERROR(there->change_speculation(id, options));
    return PlanPtr();
  };
  return {[waker = waker_] { waker->wake(); }, change};
}

Status LaunchSupervisor::change_speculation(uint64_t id, const SpeculationOptions& options) {
  std::unique_lock lock(state_.mutex);
  const std::shared_ptr<SupervisedRequest> request = state_.requests.find(id);
  if (request == nullptr) return {};
  if (!state_.launch.is_ready()) return no_launch();
  for (const uint64_t part : state_.requests.parts_of(id)) {
    DownMessage message;
    message.kind = DownMessage::Kind::kSpeculation;
    message.id = part;
    message.speculation = options;
    const LaunchCalls::Answer answer = state_.calls.call(lock, std::move(message));
    if (answer.state == LaunchCalls::State::kLost) return no_launch();
    FORERUN_RETURN_IF_ERROR(answer.status);
  }
  request->set_speculation(options);
  return {};
}

bool LaunchSupervisor::prepare_format(const OutputFormat& format, bool quick) {
  std::unique_lock lock(state_.mutex);
  if (!state_.launch.is_ready() || state_.is_stopping) return true;
  DownMessage message;
  message.kind = DownMessage::Kind::kPrepare;
  message.format = format;
  message.quick = quick;
  return state_.calls.call(lock, std::move(message)).result;
}

EngineState LaunchSupervisor::state() const {
  const std::lock_guard lock(state_.mutex);
  EngineState state = state_.reported;
  add_totals(state, state_.ended);
  EngineLoad& load = state.load;
  load.condition = state_.launch.condition(std::chrono::steady_clock::now());
  load.condition_reason = state_.launch.condition_reason();
  if (state_.launch.is_ready()) return state;
  state.kv_blocks = load.target_kv.used_blocks = load.draft_kv.used_blocks = 0;
  load.running_requests = 0;
  load.waiting_requests = static_cast<int32_t>(state_.requests.num_samples());
  return state;
}

}  // namespace forerun
