// The only thread of a process that exchanges messages with the other processes of its launch. It
// sends messages for any thread, passes on received messages, and detects ranks that fall silent.
//
// Every frame carries the launch's generation; frames of another generation are left over from an
// earlier launch and are dropped. Every rank pings every other rank, so that a process with a long
// computation does not seem dead, and all watching ranks detect a dead or stopped process.
//
// While no message arrives, the thread polls less and less often, down to once per millisecond, and
// sleeps in between: MPI itself would poll all the time.
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
#include "hosts/frame_kind.h"
#include "hosts/transport.h"
#include "wire/frame.h"

namespace forerun {

struct MessengerOptions {
  std::chrono::milliseconds ping_every{250};
  // Silence after which a watched rank is lost.
  std::chrono::milliseconds longest_silence{10000};
};

// A message from another rank: a frame or, as the last one, the loss of the rank.
struct Incoming {
  int32_t from = 0;
  FrameKind kind = FrameKind::kPing;
  Bytes frame;  // a whole frame
  Status lost;  // not ok: the rank is lost, or the whole transport

  std::span<const std::byte> payload() const {
    return std::span<const std::byte>(frame).subspan(kFrameHeaderBytes);
  }
};

class Messenger {
 public:
  using Clock = std::chrono::steady_clock;

  Messenger(std::unique_ptr<Transport> transport, const MessengerOptions& options);
  // Waits a short time for unsent messages, unless a rank is lost.
  ~Messenger();

  int32_t rank() const { return rank_; }
  int32_t num_ranks() const { return num_ranks_; }
  const MessengerOptions& options() const { return options_; }

  // Makes later frames carry this generation, and drops frames with another one. Until it is set,
  // only a greeting and the frames after it are kept.
  void set_generation(uint64_t generation) { generation_ = generation; }
  bool has_lost_anybody() const { return any_lost_; }
  // Counts the rank as lost from now on if it falls silent.
  void watch(int32_t rank);

  // begin() returns a frame's header, to which the caller appends the payload. May be called from
  // any thread; never waits.
  Bytes begin(FrameKind kind) const {
    return begin_frame({static_cast<uint8_t>(kind), generation_});
  }
  void send(int32_t to, Bytes frame);

  // Waits for the next message. Frames of Steps are kept for the listener, since a stage that has
  // started may send one while the next stage still waits for the coordinator's notice. Fails with
  // kDeadlineExceeded if no message arrives by the deadline. Must not be called after listen().
  Result<Incoming> receive(Clock::time_point deadline);
  // Passes all messages to `listener` until unlisten() returns: those that have already arrived on
  // the calling thread, later ones on the messenger's thread, one after another.
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

  const std::unique_ptr<Transport> transport_;  // used only by the thread
  const MessengerOptions options_;
  const int32_t rank_;
  const int32_t num_ranks_;
  std::atomic<uint64_t> generation_{0};
  uint64_t greeted_ = 0;  // generation of the last greeting; used only by the thread

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
