// The one thread of a process that speaks with the others of its launch: sends what any thread
// hands it, hands on what comes, and notices who has fallen silent.
//
// Every frame carries the launch's generation; those of another one are left over from before and
// are thrown away. Every rank pings every other, so that a process that computes for long is not
// taken for a dead one, and a dead or stopped one is noticed by all who listen to it.
//
// While nothing comes it looks for messages less and less often, up to once a millisecond, and
// sleeps in between: MPI itself would poll without end.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "forerun/status.h"
#include "hosts/frame.h"
#include "hosts/transport.h"

namespace forerun {

struct MessengerOptions {
  std::chrono::milliseconds ping_every{250};
  // A rank that is watched and has said nothing for so long is lost.
  std::chrono::milliseconds longest_silence{10000};
};

// What comes from another rank: a frame, or, last of all, that it is lost.
struct Incoming {
  int32_t from = 0;
  FrameKind kind = FrameKind::kPing;
  Bytes frame;  // whole
  Status lost;  // not ok: the rank is lost, or the transport as a whole

  std::span<const std::byte> payload() const {
    return std::span<const std::byte>(frame).subspan(kFrameHeaderBytes);
  }
};

class Messenger {
 public:
  using Clock = std::chrono::steady_clock;

  Messenger(std::unique_ptr<Transport> transport, const MessengerOptions& options);
  // Waits a little for what has not been sent, unless somebody is lost.
  ~Messenger();

  int32_t rank() const { return rank_; }
  int32_t num_ranks() const { return num_ranks_; }
  const MessengerOptions& options() const { return options_; }

  // From now on frames carry this generation, and frames that carry another one are thrown away.
  // Until it is set, only a greeting and the frames behind it are kept.
  void set_generation(uint64_t generation) { generation_ = generation; }
  bool has_lost_anybody() const { return any_lost_; }
  // From now on notices where the rank falls silent.
  void watch(int32_t rank);

  // Any thread; never waits. A payload is put behind what begin() gives.
  Bytes begin(FrameKind kind) const { return begin_frame({kind, generation_}); }
  void send(int32_t to, Bytes frame);

  // What comes next, Steps aside: they stay for who listens, since a stage that has started already
  // may send one while the next still waits for the coordinator's word. kDeadlineExceeded where
  // nothing has come until the deadline. Not after listen().
  Result<Incoming> receive(Clock::time_point deadline);
  // From now on `listener` gets what comes, on the messenger's thread, one after another; first of
  // all, on this one, what has come already. Until unlisten() returns.
  void listen(std::function<void(Incoming&&)> listener);
  void unlisten();

 private:
  struct Peer {
    bool watched = false;
    bool lost = false;
    Clock::time_point heard;
  };
  struct Outgoing {
    int32_t to = 0;
    Bytes frame;
  };
  void run();
  bool send_queued();
  bool receive_all();
  void take_in(Received&& received);
  void ping(Clock::time_point now);
  void look_for_silence(Clock::time_point now);
  void lose(int32_t rank, const Status& why);
  void hand_on(Incoming&& incoming);

  const std::unique_ptr<Transport> transport_;  // the thread's
  const MessengerOptions options_;
  const int32_t rank_;
  const int32_t num_ranks_;
  std::atomic<uint64_t> generation_{0};
  uint64_t greeted_ = 0;  // generation of the last greeting; used by the thread alone

  std::mutex sending_;
  std::condition_variable queued_;
  std::vector<Outgoing> outbox_;
  bool stopping_ = false;

  std::mutex receiving_;
  std::condition_variable arrived_;
  std::deque<Incoming> inbox_;
  std::function<void(Incoming&&)> listener_;

  std::mutex watching_;
  std::vector<Peer> peers_;
  std::atomic<bool> any_lost_{false};
  Clock::time_point pinged_;
  std::thread thread_;
};

}  // namespace forerun
