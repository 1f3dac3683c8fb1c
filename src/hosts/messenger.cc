#include "hosts/messenger.h"

#include <sys/prctl.h>

#include <algorithm>
#include <string>
#include <utility>

namespace forerun {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Returns the time that the thread sleeps between two polls, by the time since the last message:
// short between Steps, longer in a pause of the text, longest in an idle service.
microseconds pause_after(Messenger::Clock::duration quiet) {
  if (quiet < milliseconds(20)) return microseconds(20);
  if (quiet < milliseconds(500)) return microseconds(100);
  return microseconds(1000);
}

constexpr auto kMaxTimeToEnd = std::chrono::seconds(2);

}  // namespace

Messenger::Messenger(std::unique_ptr<Transport> transport, const MessengerOptions& options)
    : transport_(std::move(transport)),
      options_(options),
      rank_(transport_->rank()),
      num_ranks_(transport_->num_ranks()),
      peers_(static_cast<size_t>(num_ranks_)) {
  thread_ = std::thread([this] { run(); });
}

Messenger::~Messenger() {
  {
    const std::lock_guard lock(sending_);
    stopping_ = true;
  }
  queued_.notify_one();
  thread_.join();
}

void Messenger::watch(int32_t rank) {
  const std::lock_guard lock(watching_);
  Peer& peer = peers_[static_cast<size_t>(rank)];
  peer.watched = true;
  peer.heard = Clock::now();
}

void Messenger::send(int32_t to, Bytes frame) {
  end_frame(frame);
  {
    const std::lock_guard lock(sending_);
    outbox_.push_back({to, std::move(frame)});
  }
  queued_.notify_one();
}

Result<Incoming> Messenger::receive(Clock::time_point deadline) {
  std::unique_lock lock(receiving_);
  auto first = inbox_.end();
  const auto has_come = [&] {
    first = std::find_if(inbox_.begin(), inbox_.end(), [](const Incoming& incoming) {
      return !incoming.lost.ok() || !is_of_steps(incoming.kind);
    });
    return first != inbox_.end();
  };
  if (!arrived_.wait_until(lock, deadline, has_come)) {
    return Status(StatusCode::kDeadlineExceeded, "no message has come in time");
  }
  Incoming incoming = std::move(*first);
  inbox_.erase(first);
  return incoming;
}

void Messenger::listen(std::function<void(Incoming&&)> listener) {
  const std::lock_guard lock(receiving_);
  listener_ = std::move(listener);
  for (Incoming& incoming : inbox_) listener_(std::move(incoming));
  inbox_.clear();
}

void Messenger::unlisten() {
  const std::lock_guard lock(receiving_);
  listener_ = nullptr;
}

void Messenger::hand_on(Incoming&& incoming) {
  const std::lock_guard lock(receiving_);
  if (listener_) return listener_(std::move(incoming));
  inbox_.push_back(std::move(incoming));
  arrived_.notify_one();
}

void Messenger::lose(int32_t rank, const Status& why) {
  {
    const std::lock_guard lock(watching_);
    Peer& peer = peers_[static_cast<size_t>(rank)];
    if (peer.lost) return;
    peer.lost = true;
  }
  any_lost_ = true;
  hand_on({.from = rank, .frame = {}, .lost = why});
}

bool Messenger::send_queued() {
  std::vector<Outgoing> outgoing;
  {
    const std::lock_guard lock(sending_);
    outgoing.swap(outbox_);
  }
  for (Outgoing& message : outgoing) {
    const Status sent = transport_->send(message.to, std::move(message.frame));
    if (!sent.ok()) lose(message.to, sent);
  }
  return !outgoing.empty();
}

void Messenger::take_in(Received&& received) {
  const auto header = read_frame(received.message, kLastFrameKind);
  if (!header.ok()) return lose(received.from, header.status());
  const auto kind = static_cast<FrameKind>(header->kind);
  if (kind == FrameKind::kGreeting) {
    greeted_ = header->generation;
  } else if (header->generation == 0 ||
             header->generation != (generation_ == 0 ? greeted_ : generation_.load())) {
    return;
  }
  {
    const std::lock_guard lock(watching_);
    peers_[static_cast<size_t>(received.from)].heard = Clock::now();
  }
  if (kind == FrameKind::kPing) return;
  hand_on({.from = received.from, .kind = kind, .frame = std::move(received.message), .lost = {}});
}

bool Messenger::receive_all() {
  for (bool any = false;; any = true) {
    auto received = transport_->poll();
    if (!received.ok()) {
      for (int32_t rank = 0; rank < num_ranks_; ++rank) {
        if (rank != rank_) lose(rank, received.status());
      }
      return any;
    }
    if (!*received) return any;
    take_in(std::move(**received));
  }
}

void Messenger::ping(Clock::time_point now) {
  if (generation_ == 0 || now - pinged_ < options_.ping_every) return;
  pinged_ = now;
  for (int32_t rank = 0; rank < num_ranks_; ++rank) {
    if (rank == rank_) continue;
    Bytes frame = begin(FrameKind::kPing);
    end_frame(frame);
    const Status sent = transport_->send(rank, std::move(frame));
    if (!sent.ok()) lose(rank, sent);
  }
}

void Messenger::look_for_silence(Clock::time_point now) {
  for (int32_t rank = 0; rank < num_ranks_; ++rank) {
    {
      const std::lock_guard lock(watching_);
      const Peer& peer = peers_[static_cast<size_t>(rank)];
      if (!peer.watched || peer.lost || now - peer.heard < options_.longest_silence) continue;
    }
    lose(rank, Status(StatusCode::kDeadlineExceeded,
                      "has sent nothing for " + std::to_string(options_.longest_silence.count()) +
                          " ms"));
  }
}

void Messenger::run() {
  // Reduces the timer slack, since by default the kernel adds 50 us to each sleep.
  prctl(PR_SET_TIMERSLACK, 1000UL);
  Clock::time_point busy = Clock::now();
  Clock::time_point looked = busy;
  std::optional<Clock::time_point> last_call;
  while (true) {
    const bool sent = send_queued();
    const bool received = receive_all();
    Clock::time_point now = Clock::now();
    if (sent || received) busy = now;
    // If this process was stopped for a while, it caused the silence itself, so it listens first.
    if (now - looked > options_.longest_silence / 2) {
      const std::lock_guard lock(watching_);
      for (Peer& peer : peers_) peer.heard = now;
    }
    looked = now;
    ping(now);
    look_for_silence(now);
    std::unique_lock lock(sending_);
    if (stopping_ && outbox_.empty()) {
      if (!last_call) last_call = now + kMaxTimeToEnd;
      if (transport_->has_sent_all() || any_lost_ || now > *last_call) return;
    }
    queued_.wait_for(lock, pause_after(now - busy),
                     [&] { return !outbox_.empty() || (stopping_ && !last_call); });
  }
}

}  // namespace forerun
