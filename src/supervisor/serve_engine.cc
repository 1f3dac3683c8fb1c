#include "supervisor/serve_engine.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "supervisor/format_threads.h"
#include "supervisor/message.h"
#include "supervisor/message_pipes.h"
#include "supervisor/wake_descriptor.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// A supervisor that is stopped for a while (Ctrl-Z) finds its launch still running.
constexpr int kSilencesAllowed = 6;
constexpr milliseconds kBeforeHello{60000};
constexpr milliseconds kLastMessages{1000};
constexpr milliseconds kBetweenProgress{50};

// An engine in construction, on a thread that reports progress.
class Making {
 public:
  Making(const ServedEngine& served, EngineOptions options) {
    options.on_progress = [this](const std::string& what, double fraction) {
      const std::lock_guard lock(mutex_);
      const SteadyClock::time_point now = SteadyClock::now();
      if (fraction < 1.0 && now - told_ < kBetweenProgress) return;
      told_ = now;
      progress_.emplace(what, fraction);
      waker_.wake();
    };
    thread_ = std::thread([this, create = served.create, options = std::move(options)] {
      Result<std::unique_ptr<Engine>> made = create(options);
      const std::lock_guard lock(mutex_);
      made_ = std::move(made);
      waker_.wake();
    });
  }
  ~Making() { thread_.join(); }

  int descriptor() const { return waker_.descriptor(); }
  std::optional<std::pair<std::string, double>> take_progress() {
    waker_.clear();
    const std::lock_guard lock(mutex_);
    return std::exchange(progress_, std::nullopt);
  }
  std::optional<Result<std::unique_ptr<Engine>>> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(made_, std::nullopt);
  }

 private:
  WakeDescriptor waker_;
  std::mutex mutex_;
  SteadyClock::time_point told_;
  std::optional<std::pair<std::string, double>> progress_;
  std::optional<Result<std::unique_ptr<Engine>>> made_;
  std::thread thread_;
};

class EngineService {
 public:
  explicit EngineService(const ServedEngine& served)
      : served_(served), input_(served.input), output_(served.output) {}

  Status run() {
    FORERUN_ASSIGN_OR_RETURN(queue_, CompletionQueue::create());
    const Status served = serve();
    const SteadyClock::time_point deadline = SteadyClock::now() + kLastMessages;
    while (!output_.is_empty() && SteadyClock::now() < deadline) {
      pollfd event{output_.descriptor(), POLLOUT, 0};
      poll(&event, 1, 20);
      if (!output_.write().ok()) break;
    }
    if (making_) _exit(1);
    handles_.clear();
    return served;
  }

 private:
  Status serve() {
    while (!has_been_told_to_end_) {
      wait();
      FORERUN_RETURN_IF_ERROR(read());
      FORERUN_RETURN_IF_ERROR(look_at_making());
      look_at_formats();
      FORERUN_RETURN_IF_ERROR(look_for_failure());
      FORERUN_RETURN_IF_ERROR(send_events());
      ping();
      if (!output_.write().ok()) return gone();
    }
    return {};
  }

  static Status gone() { return Status(StatusCode::kCancelled, "the supervisor has left"); }

  void send(const UpMessage& message) { output_.push(write_message(message)); }
  // Returns a failure if the launch is lost; the supervisor has then been told.
  Status look_for_failure() {
    const LostLaunch failed = served_.failure ? served_.failure() : LostLaunch();
    if (failed.status.ok()) return {};
    UpMessage message;
    message.kind = UpMessage::Kind::kFailure;
    message.status = failed.status;
    message.rank = failed.rank;
    send(message);
    return failed.status;
  }
  Status refuse(const Status& why) {
    UpMessage message;
    message.kind = UpMessage::Kind::kRefused;
    message.status = why;
    send(message);
    return why;
  }

  void wait() {
    std::array<pollfd, 5> events{{{input_.descriptor(), POLLIN, 0},
                                  {queue_->fd(), POLLIN, 0},
                                  {making_ ? making_->descriptor() : -1, POLLIN, 0},
                                  {formats_ ? formats_->descriptor() : -1, POLLIN, 0},
                                  {output_.is_empty() ? -1 : output_.descriptor(), POLLOUT, 0}}};
    poll(events.data(), events.size(), static_cast<int>(ping_every_.count()));
  }

  Status read() {
    std::vector<Bytes> frames;
    std::vector<std::string> lines;
    const Status status = input_.read(frames, lines);
    if (!lines.empty()) {
      return Status(StatusCode::kCorrupt,
                    "found '" + lines.front() + "'; accepted: a supervisor's messages");
    }
    const SteadyClock::time_point now = SteadyClock::now();
    if (!frames.empty() || now - looked_ > silence_ / 2) heard_ = now;
    looked_ = now;
    for (const Bytes& frame : frames) {
      FORERUN_ASSIGN_OR_RETURN(DownMessage message, read_down_message(frame));
      handle(std::move(message));
    }
    if (status.code() == StatusCode::kCancelled) return has_been_told_to_end_ ? Status() : gone();
    FORERUN_RETURN_IF_ERROR(status);
    const milliseconds longest = has_hello_ ? kSilencesAllowed * silence_ : kBeforeHello;
    if (now - heard_ > longest) {
      return Status(StatusCode::kDeadlineExceeded, "the supervisor has sent nothing for " +
                                                       std::to_string(longest.count()) + " ms");
    }
    return {};
  }

  void handle(DownMessage&& message) {
    using Kind = DownMessage::Kind;
    switch (message.kind) {
      case Kind::kPing:
        break;
      case Kind::kHello:
        if (std::exchange(has_hello_, true)) break;
        silence_ = std::max(message.silence, milliseconds(100));
        ping_every_ = std::clamp(silence_ / 20, milliseconds(5), milliseconds(100));
        making_.emplace(served_, std::move(message.options));
        break;
      case Kind::kSubmit:
        if (engine_ != nullptr && message.request.output_format.kind != OutputFormat::Kind::kAny) {
          OutputFormat format = message.request.output_format;
          prepare(std::move(message), std::move(format), FormatThreads::Effort::kQuickFirst);
          break;
        }
        answer(message.call, submit(message));
        break;
      case Kind::kPrepare: {
        if (engine_ == nullptr) {
          answer(message.call, {});
          break;
        }
        OutputFormat format = std::move(message.format);
        const auto effort =
            message.quick ? FormatThreads::Effort::kQuick : FormatThreads::Effort::kFull;
        prepare(std::move(message), std::move(format), effort);
        break;
      }
      case Kind::kSpeculation: {
        const auto handle = handles_.find(message.id);
        // A request that has ended stays unchanged.
        answer(message.call, handle == handles_.end()
                                 ? Status()
                                 : handle->second->change_speculation(message.speculation));
        break;
      }
      case Kind::kCancel:
        for (auto& [number, preparing] : preparing_) {
          if (preparing.message.id == message.id) preparing.is_cancelled = true;
        }
        if (const auto handle = handles_.find(message.id); handle != handles_.end()) {
          handle->second->cancel();
        }
        break;
      case Kind::kEnd:
        has_been_told_to_end_ = true;
        break;
    }
  }

  Status submit(DownMessage& message) {
    if (engine_ == nullptr) return Status(StatusCode::kOverloaded, "the engine is not ready");
    FORERUN_ASSIGN_OR_RETURN(handles_[message.id],
                             engine_->submit(std::move(message.request), *queue_, message.id));
    return {};
  }

  // Answers the message once its format has been compiled, or is known to take long.
  void prepare(DownMessage message, OutputFormat format, FormatThreads::Effort effort) {
    const uint64_t number = ++last_preparing_;
    preparing_[number].message = std::move(message);
    formats_->post(number, std::move(format), effort);
  }

  void look_at_formats() {
    if (!formats_) return;
    for (const FormatThreads::Done& done : formats_->take()) {
      const auto found = preparing_.find(done.number);
      Preparing preparing = std::move(found->second);
      preparing_.erase(found);
      DownMessage& message = preparing.message;
      if (message.kind == DownMessage::Kind::kPrepare) {
        answer(message.call, {}, done.is_prepared);
        continue;
      }
      const uint64_t id = message.id;
      const Status status = submit(message);
      if (status.ok() && preparing.is_cancelled) handles_[id]->cancel();
      answer(message.call, status);
    }
  }

  void answer(uint64_t call, const Status& status, bool result = true) {
    UpMessage message;
    message.kind = UpMessage::Kind::kAnswer;
    message.call = call;
    message.status = status;
    message.result = result;
    send(message);
  }

  Status look_at_making() {
    if (!making_) return {};
    if (const auto progress = making_->take_progress()) {
      UpMessage message;
      message.kind = UpMessage::Kind::kProgress;
      message.text = progress->first;
      message.fraction = progress->second;
      send(message);
    }
    auto made = making_->take();
    if (!made) return {};
    making_.reset();
    if (!made->ok()) {
      FORERUN_RETURN_IF_ERROR(look_for_failure());
      return refuse(made->status());
    }
    engine_ = std::move(*made).value();
    formats_.emplace(*engine_);
    UpMessage message;
    message.kind = UpMessage::Kind::kReady;
    message.info = engine_->info();
    send(message);
    return {};
  }

  // Sends the events of requests. If the launch is lost, an error may be its consequence, so
  // requests do not receive it.
  Status send_events() {
    while (auto completion = queue_->poll()) {
      const bool has_failed = completion->event.reason == FinishReason::kError;
      if (completion->event.last) handles_.erase(completion->tag);
      if (has_failed) FORERUN_RETURN_IF_ERROR(look_for_failure());
      // The state goes before the event, since it tells the supervisor who caused the event's
      // error.
      if (has_failed || completion->event.last) tell_state();
      UpMessage message;
      message.kind = UpMessage::Kind::kEvent;
      message.id = completion->tag;
      message.event = std::move(completion->event);
      send(message);
    }
    return {};
  }

  void tell_state() {
    UpMessage message;
    message.kind = UpMessage::Kind::kState;
    message.state = {engine_->load(), engine_->emulation(), engine_->kv_blocks_in_use()};
    send(message);
  }

  void ping() {
    const SteadyClock::time_point now = SteadyClock::now();
    if (now - pinged_ < ping_every_) return;
    pinged_ = now;
    if (engine_ != nullptr) return tell_state();
    send({});
  }

  const ServedEngine& served_;
  MessageReader input_;
  MessageWriter output_;
  std::unique_ptr<CompletionQueue> queue_;
  std::unique_ptr<Engine> engine_;
  // A message with a format that is being compiled.
  struct Preparing {
    DownMessage message;
    bool is_cancelled = false;
  };
  std::map<uint64_t, Preparing> preparing_;  // keyed by the number in formats_
  uint64_t last_preparing_ = 0;
  std::optional<FormatThreads> formats_;  // threads that use engine_
  std::map<uint64_t, std::shared_ptr<RequestHandle>> handles_;
  std::optional<Making> making_;
  bool has_hello_ = false;
  bool has_been_told_to_end_ = false;
  milliseconds silence_{10000};
  milliseconds ping_every_{100};
  SteadyClock::time_point heard_ = SteadyClock::now();
  SteadyClock::time_point looked_ = heard_;
  SteadyClock::time_point pinged_;
};

}  // namespace

Status serve_engine(const ServedEngine& served) { return EngineService(served).run(); }

}  // namespace forerun
