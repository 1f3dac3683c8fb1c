// Stands for a launch in supervisor_test: serves a real engine in this process alone, and fails as
// the test's file says.
//
// Usage: fault_launch FOLDER. Every start adds a line to FOLDER/launches: its process id, and
// whether it was given a draft. FOLDER/faults has one line for each start: what happens, and after
// how many events: "die 3", "stop 3", "leave 3", "garble 3", "fail 3 RANK MESSAGE", "error 3
// MESSAGE" (of the request), "invalid 3 MESSAGE" (the same, its own fault), "draft 3 MESSAGE" (an
// error, and a fault of the draft is counted), "refuse 0 MESSAGE", "refuse_draft 0 MESSAGE" (where
// it has been given one), "linger 0" (while the engine is made), "deaf 0" (takes no requests in),
// "poison SEED" (dies when it is given a request with this seed); no line, or "-": nothing. A line
// "always FAULT" stands for all starts from there on.
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "supervisor/message.h"
#include "supervisor/serve_engine.h"
#include "wire/frame_cutter.h"

namespace forerun::testing {
namespace {

struct Fault {
  std::string kind = "-";
  int events = 0;
  std::string message;
  std::optional<int32_t> rank;  // "fail"
};

Fault fault_of(const std::string& folder, size_t start) {
  std::ifstream file(folder + "/faults");
  std::string line;
  constexpr std::string_view kAlways = "always ";
  for (size_t idx = 0; idx <= start && !line.starts_with(kAlways); ++idx) {
    if (!std::getline(file, line)) return {};
  }
  if (line.starts_with(kAlways)) line.erase(0, kAlways.size());
  Fault fault;
  std::istringstream fields(line);
  fields >> fault.kind >> fault.events >> std::ws;
  if (fault.kind == "fail") {
    int32_t rank = 0;
    if (fields >> rank) fault.rank = rank;
    fields >> std::ws;
  }
  std::getline(fields, fault.message);
  return fault;
}

size_t starts_so_far(const std::string& folder) {
  std::ifstream file(folder + "/launches");
  return static_cast<size_t>(
      std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
}

bool write_all(int descriptor, const Bytes& bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t size = write(descriptor, bytes.data() + written, bytes.size() - written);
    if (size < 0) return false;
    written += static_cast<size_t>(size);
  }
  return true;
}

// Calls `take` with each frame that comes, until it returns false or the descriptor ends.
void each_frame(int descriptor, const std::function<bool(const Bytes&)>& take) {
  std::array<std::byte, 4096> bytes{};
  FrameCutter cutter(kLongestMessage);
  for (ssize_t size = 0; (size = read(descriptor, bytes.data(), bytes.size())) > 0;) {
    std::vector<Bytes> frames;
    std::string text;
    (void)cutter.push(std::span(bytes).first(static_cast<size_t>(size)), frames, text);
    for (const Bytes& frame : frames) {
      if (!take(frame)) return;
    }
  }
}

class FaultLaunch {
 public:
  explicit FaultLaunch(std::string folder)
      : folder_(std::move(folder)), fault_(fault_of(folder_, starts_so_far(folder_))) {}

  int run() {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) return 2;
    std::thread relay([this, from = ends[0]] { pass_on(from); });
    ServedEngine served;
    const bool is_filtered = fault_.kind == "poison" || fault_.kind == "deaf";
    served.input = is_filtered ? filtered_input() : STDIN_FILENO;
    served.output = ends[1];
    served.create = [this](const EngineOptions& options) { return create(options); };
    served.failure = [this] {
      return has_failed_ ? LostLaunch{Status(StatusCode::kInternal, fault_.message), fault_.rank}
                         : LostLaunch();
    };
    const Status status = serve_engine(served);
    relay.join();
    return status.ok() ? 0 : 1;
  }

 private:
  Result<std::unique_ptr<Engine>> create(const EngineOptions& options) {
    std::ofstream(folder_ + "/launches", std::ios::app)
        << getpid() << (options.draft.empty() ? " plain" : " draft") << '\n';
    if (fault_.kind == "linger") std::this_thread::sleep_for(std::chrono::seconds(60));
    const bool refuses =
        fault_.kind == "refuse" || (fault_.kind == "refuse_draft" && !options.draft.empty());
    if (refuses) return Status(StatusCode::kUnsupported, fault_.message);
    return Engine::create(options);
  }

  // Passes standard input on until a request carries the poison; drops requests where the launch is
  // deaf.
  int filtered_input() {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) _exit(2);
    std::thread([this, to = ends[1]] {
      each_frame(STDIN_FILENO, [this, to](const Bytes& frame) {
        const auto message = read_down_message(frame);
        const bool asks = message.ok() && message->kind == DownMessage::Kind::kSubmit;
        if (asks && fault_.kind == "deaf") return true;
        if (asks && message->request.sampling.seed == static_cast<uint64_t>(fault_.events)) {
          std::raise(SIGKILL);
        }
        return write_all(to, frame);
      });
      close(to);
    }).detach();
    return ends[0];
  }

  // The fault comes in the place of an event.
  void pass_on(int from) {
    each_frame(from, [this](const Bytes& frame) {
      auto message = read_up_message(frame);
      if (message.ok() && message->kind == UpMessage::Kind::kEvent && fails_by_events() &&
          ++events_ > fault_.events && !fail(*message)) {
        return true;
      }
      send(frame);
      return true;
    });
  }

  // A supervisor that is gone is no fault of this launch.
  static void send(const Bytes& frame) { (void)write_all(STDOUT_FILENO, frame); }

  bool fails_by_events() const {
    return fault_.kind != "-" && fault_.kind != "poison" && fault_.kind != "deaf" &&
           fault_.kind != "refuse_draft";
  }

  // Whether the event is passed on after all.
  bool fail(UpMessage& message) {
    if (fault_.kind == "die") std::raise(SIGKILL);
    if (fault_.kind == "stop") std::raise(SIGSTOP);
    if (fault_.kind == "leave") _exit(3);
    if (fault_.kind == "garble") send(Bytes(100, std::byte{'?'}));
    if (fault_.kind == "fail") has_failed_ = true;
    const bool is_of_draft = fault_.kind == "draft";
    const bool is_invalid = fault_.kind == "invalid";
    if (fault_.kind != "error" && !is_of_draft && !is_invalid) return false;
    if (std::exchange(has_sent_error_, true)) return is_invalid;
    if (is_of_draft) {
      UpMessage state;
      state.kind = UpMessage::Kind::kState;
      state.state.load.draft_faults = 1;
      send(write_message(state));
    }
    message.event = {};
    message.event.finished = true;
    message.event.reason = FinishReason::kError;
    message.event.error =
        Status(is_invalid ? StatusCode::kInvalidArgument : StatusCode::kInternal, fault_.message);
    send(write_message(message));
    return false;
  }

  const std::string folder_;
  const Fault fault_;
  int events_ = 0;
  bool has_sent_error_ = false;
  std::atomic<bool> has_failed_{false};
};

}  // namespace
}  // namespace forerun::testing

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  std::signal(SIGPIPE, SIG_IGN);
  return forerun::testing::FaultLaunch(argv[1]).run();
}
