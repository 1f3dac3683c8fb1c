#include "supervisor/launch_link.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "supervisor/log_lines.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;

constexpr int kNoProgram = 127;
constexpr int kOfSignals = 128;  // higher exit codes are a signal's
constexpr int kMaxSignals = 64;
constexpr size_t kMaxComplaints = 64;
constexpr size_t kShownComplaints = 4;  // number of lines shown if none names a rank
// mpirun reports which process has died only after the end of that process's output.
constexpr milliseconds kLastWords{1500};
constexpr milliseconds kUnspokenGrace{500};

std::string in_ms(milliseconds time) { return std::to_string(time.count()) + " ms"; }

std::string in_seconds(milliseconds time) {
  return time.count() % 1000 == 0 ? std::to_string(time.count() / 1000) + " s" : in_ms(time);
}

// Returns whether a line of standard error names a rank and so should be shown before others. Used
// for nothing else.
bool names_a_rank(const std::string& line, int32_t num_ranks) {
  constexpr std::string_view kWord = "rank ";
  for (size_t at = line.find(kWord); at != std::string::npos; at = line.find(kWord, at)) {
    at += kWord.size();
    int32_t rank = -1;
    const char* const end = line.data() + line.size();
    const auto [stopped, error] = std::from_chars(line.data() + at, end, rank);
    if (error == std::errc() && rank >= 0 && rank < num_ranks) return true;
  }
  return false;
}

LaunchFailure failure(LaunchFailure::Kind kind, StatusCode code, std::string what) {
  return {.status = Status(code, std::move(what)), .kind = kind, .rank = {}};
}

}  // namespace

LaunchLink::LaunchLink(const SupervisorOptions& options, LaunchFolder folder,
                       std::unique_ptr<LaunchProcess> process)
    : options_(options),
      folder_(std::move(folder)),
      process_(std::move(process)),
      notices_(options.hosts),
      started_(Clock::now()),
      heard_(started_),
      looked_(started_) {}

Result<std::unique_ptr<LaunchLink>> LaunchLink::start(const SupervisorOptions& options,
                                                      const EngineOptions& engine) {
  FORERUN_ASSIGN_OR_RETURN(LaunchFolder folder, LaunchFolder::make());
  FORERUN_ASSIGN_OR_RETURN(auto process, LaunchProcess::start(options.command(folder.name())));
  auto link =
      std::unique_ptr<LaunchLink>(new LaunchLink(options, std::move(folder), std::move(process)));
  DownMessage hello;
  hello.kind = DownMessage::Kind::kHello;
  hello.options = engine;
  hello.silence = options.longest_silence;
  link->send(hello);
  return link;
}

void LaunchLink::send(const DownMessage& message) {
  process_->input().push(write_message(message));
}

std::optional<LaunchFailure> LaunchLink::wait(int wake, milliseconds timeout,
                                              std::vector<UpMessage>& messages) {
  // If writing fails, the launch has ended too, and its output shows that.
  (void)process_->input().write();
  std::array<pollfd, 4> events{{{wake, POLLIN, 0},
                                {process_->output().descriptor(), POLLIN, 0},
                                {process_->errors().descriptor(), POLLIN, 0},
                                {-1, POLLOUT, 0}}};
  if (!process_->input().is_empty()) events[3].fd = process_->input().descriptor();
  poll(events.data(), events.size(), static_cast<int>(timeout.count()));

  const Clock::time_point now = Clock::now();
  // If this process was stopped, it could not read the launch's messages, so it reads before it
  // counts silence.
  if (now - looked_ > options_.longest_silence / 2) heard_ = now;
  looked_ = now;
  if (has_spoken_ && now - pinged_ >= options_.longest_silence / 20) {
    pinged_ = now;
    send({});
  }
  read_errors();
  const auto no_message = [](const Status& why) {
    return failure(LaunchFailure::Kind::kProcess, StatusCode::kCorrupt,
                   "coordinator: found bytes that are not a message: " + why.message());
  };
  std::vector<Bytes> frames;
  std::vector<std::string> lines;
  const Status read = process_->output().read(frames, lines);
  add_complaints(std::move(lines));  // mpirun's lines if it cannot start a program
  for (const Bytes& frame : frames) {
    Result<UpMessage> message = read_up_message(frame);
    if (!message.ok()) return no_message(message.status());
    heard_ = now;
    has_spoken_ = true;
    messages.push_back(std::move(*message));
  }
  if (read.code() == StatusCode::kCorrupt) return no_message(read);
  if (!read.ok()) return why_it_ended();
  return look_for_silence();
}

std::optional<LaunchFailure> LaunchLink::look_for_silence() {
  const auto silent = [&](Clock::time_point since, milliseconds longest) {
    return looked_ - since > longest;
  };
  if (!has_spoken_ && silent(started_, options_.start_timeout)) {
    return failure(LaunchFailure::Kind::kSilence, StatusCode::kDeadlineExceeded,
                   "the launch has not come up within " + in_seconds(options_.start_timeout));
  }
  if (has_spoken_ && silent(heard_, options_.longest_silence)) {
    LaunchFailure lost = failure(LaunchFailure::Kind::kSilence, StatusCode::kDeadlineExceeded,
                                 "rank 0 (the coordinator, host " + options_.hosts.front() +
                                     "): has sent nothing for " + in_ms(options_.longest_silence));
    lost.rank = 0;
    return lost;
  }
  return std::nullopt;
}

void LaunchLink::read_errors() {
  std::vector<std::string> lines;
  // Standard error ends when the output does.
  (void)process_->errors().read(lines);
  for (std::string& line : lines) {
    if (!take_log_line(line)) add_complaints(notices_.push(std::move(line)));
  }
}

void LaunchLink::add_complaints(std::vector<std::string> lines) {
  for (std::string& line : lines) {
    log_line(LogLevel::kInfo, "launch: " + line);
    if (complaints_.size() == kMaxComplaints) complaints_.pop_front();
    complaints_.push_back(std::move(line));
  }
}

// Called when the output has ended. The last lines of standard error may arrive after it.
LaunchFailure LaunchLink::why_it_ended() {
  const Clock::time_point deadline = Clock::now() + kLastWords;
  for (bool any = true; Clock::now() < deadline && (any || !process_->exit_code());) {
    pollfd event{process_->errors().descriptor(), POLLIN, 0};
    any = poll(&event, 1, 20) > 0;
    read_errors();
  }
  add_complaints(notices_.finish());
  const std::optional<int> code = process_->exit_code();
  if (code == kNoProgram && complaints_.empty()) {
    has_left_ = true;
    return failure(LaunchFailure::Kind::kProcess, StatusCode::kNotFound,
                   "cannot run '" + options_.command(folder_.name()).front() +
                       "' (Debian has mpirun in openmpi-bin)");
  }
  has_left_ = code && (*code < kOfSignals || *code > kOfSignals + kMaxSignals);
  // A line that names a rank is the most specific; a rank's own line comes before mpirun's.
  const auto names = [this](const std::string& line) {
    return names_a_rank(line, static_cast<int32_t>(options_.hosts.size()));
  };
  const auto named = std::find_if(complaints_.begin(), complaints_.end(), names);
  std::string what = "the launch has ended";
  if (code) what += " with exit code " + std::to_string(*code);
  if (named != complaints_.end()) {
    constexpr std::string_view kOurs = "forerun: ";
    what = named->substr(named->starts_with(kOurs) ? kOurs.size() : 0);
  } else {
    const size_t shown = std::min(complaints_.size(), kShownComplaints);
    for (size_t idx = 0; idx < shown; ++idx) what += (idx == 0 ? ": " : " / ") + complaints_[idx];
  }
  return failure(LaunchFailure::Kind::kProcess, StatusCode::kInternal, what);
}

void LaunchLink::end(bool politely) {
  if (politely) {
    DownMessage end;
    end.kind = DownMessage::Kind::kEnd;
    send(end);
    const Clock::time_point deadline = Clock::now() + options_.end_timeout;
    while (!process_->input().is_empty() && Clock::now() < deadline) {
      pollfd event{process_->input().descriptor(), POLLOUT, 0};
      poll(&event, 1, 20);
      if (!process_->input().write().ok()) break;
    }
  }
  // A launch that has never sent a message may be waiting for a host that does not answer, and has
  // nothing to clean up.
  const milliseconds grace =
      has_spoken_ ? options_.kill_timeout : std::min(options_.kill_timeout, kUnspokenGrace);
  process_->end(politely && has_spoken_ ? options_.end_timeout : milliseconds(0), grace);
}

}  // namespace forerun
