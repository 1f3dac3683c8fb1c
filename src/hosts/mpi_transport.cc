#include "hosts/mpi_transport.h"

// Only the C interface, since MPI 3 no longer has the C++ one.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "hosts/frame_kind.h"

namespace forerun {
namespace {

constexpr int kTag = 1;

Status failure(const char* what, int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Status(StatusCode::kInternal, std::string("MPI, ") + what + ": " + text);
}

// Ends the process if a call that waits for others takes too long.
class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds timeout, int exit_code, std::string complaint)
      : thread_([this, timeout, exit_code, complaint = std::move(complaint)] {
          std::unique_lock lock(mutex_);
          if (done_changed_.wait_for(lock, timeout, [this] { return done_; })) return;
          if (!complaint.empty()) std::fprintf(stderr, "forerun: %s\n", complaint.c_str());
          std::fflush(nullptr);
          _exit(exit_code);
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    done_changed_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_changed_;
  bool done_ = false;
  std::thread thread_;
};

// A message that is being sent; it keeps its address until MPI has finished.
struct Sending {
  Bytes message;
  MPI_Request request = MPI_REQUEST_NULL;
};

class MpiTransport : public Transport {
 public:
  MpiTransport() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &num_ranks_);
  }
  // MPI still uses the buffers of messages in flight, so they are never freed.
  ~MpiTransport() override {
    if (!sending_->empty()) static_cast<void>(sending_.release());
    if (!receiving_->empty()) static_cast<void>(receiving_.release());
  }

  int32_t rank() const override { return rank_; }
  int32_t num_ranks() const override { return num_ranks_; }

  Status send(int32_t to, Bytes message) override {
    if (message.size() > kMaxFrameBytes) {
      return Status(StatusCode::kInvalidArgument,
                    "found a message of " + std::to_string(message.size()) +
                        " bytes; accepted: at most " + std::to_string(kMaxFrameBytes));
    }
    Sending& sending = sending_->emplace_back();
    sending.message = std::move(message);
    // finish_sends() waits for it: NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker)
    const int code = MPI_Isend(sending.message.data(), static_cast<int>(sending.message.size()),
                               MPI_BYTE, to, kTag, MPI_COMM_WORLD, &sending.request);
    if (code == MPI_SUCCESS) return {};
    sending_->pop_back();
    return failure("send", code);
  }

  Result<std::optional<Received>> poll() override {
    FORERUN_RETURN_IF_ERROR(finish_sends());
    FORERUN_RETURN_IF_ERROR(begin_receives());
    std::optional<Received> received;
    for (auto candidate = receiving_->begin(); candidate != receiving_->end(); ++candidate) {
      FORERUN_ASSIGN_OR_RETURN(const bool done, is_done(candidate->request));
      if (!done) continue;
      // The messages of a rank are passed on in the order of arrival.
      bool is_first = true;
      for (auto earlier = receiving_->begin(); earlier != candidate; ++earlier) {
        is_first = is_first && earlier->received.from != candidate->received.from;
      }
      if (!is_first) continue;
      received = std::move(candidate->received);
      receiving_->erase(candidate);
      break;
    }
    return received;
  }

  bool has_sent_all() const override { return sending_->empty(); }

 private:
  struct Receiving {
    Received received;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  // Returns whether MPI has completed the request, which then becomes null.
  static Result<bool> is_done(MPI_Request& request) {
    int done = 0;
    const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return failure("receive", code);
    return done != 0;
  }

  Status finish_sends() {
    for (auto sending = sending_->begin(); sending != sending_->end();) {
      FORERUN_ASSIGN_OR_RETURN(const bool done, is_done(sending->request));
      sending = done ? sending_->erase(sending) : std::next(sending);
    }
    return {};
  }

  Status begin_receives() {
    while (true) {
      int found = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status;
      int code = MPI_Improbe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &found, &message, &status);
      if (code != MPI_SUCCESS) return failure("look for messages", code);
      if (found == 0) return {};
      int size = 0;
      MPI_Get_count(&status, MPI_BYTE, &size);
      Receiving& receiving = receiving_->emplace_back();
      receiving.received.from = status.MPI_SOURCE;
      receiving.received.message.resize(static_cast<size_t>(size));
      code = MPI_Imrecv(receiving.received.message.data(), size, MPI_BYTE, &message,
                        &receiving.request);
      if (code != MPI_SUCCESS) return failure("receive", code);
    }
  }

  int rank_ = 0;
  int num_ranks_ = 1;
  // Not null before the destructor.
  std::unique_ptr<std::list<Sending>> sending_ = std::make_unique<std::list<Sending>>();
  std::unique_ptr<std::deque<Receiving>> receiving_ = std::make_unique<std::deque<Receiving>>();
};

constexpr std::chrono::milliseconds kLeaveTimeout{5000};
// When a job is aborted, mpirun drops output that it has not passed on yet. So the process that
// aborts waits until its own message is out, and other ranks wait for the coordinator's message,
// which explains the failure best.
constexpr std::chrono::milliseconds kCoordinatorsWord{500};
constexpr std::chrono::milliseconds kOthersWord{2500};

}  // namespace

Status check_mpi() { return {}; }

Result<std::unique_ptr<Transport>> start_mpi(std::chrono::milliseconds timeout) {
  // Copying between processes' memory needs rights that containers withhold; MPI would print a
  // warning.
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", /*overwrite=*/0);
  int provided = 0;
  {
    const Watchdog watchdog(timeout, 1,
                            "MPI has not started within " + std::to_string(timeout.count()) +
                                " ms: not all processes of the launch have");
    if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
        code != MPI_SUCCESS) {
      return failure("start", code);
    }
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    return Status(StatusCode::kUnsupported,
                  "hosts: found an MPI that only one thread may call; accepted: one for "
                  "MPI_THREAD_SERIALIZED");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return std::unique_ptr<Transport>(std::make_unique<MpiTransport>());
}

void leave_mpi(bool failed, int exit_code) {
  int is_up = 0;
  MPI_Initialized(&is_up);
  if (is_up == 0) return;
  const Watchdog watchdog(kLeaveTimeout, exit_code, "");
  if (failed) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::this_thread::sleep_for(rank == 0 ? kCoordinatorsWord : kOthersWord);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  } else {
    MPI_Finalize();
  }
}

}  // namespace forerun
