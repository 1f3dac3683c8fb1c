// A relay before a transport that slows its links down: a message waits for those before it, takes
// the time of its bytes, and arrives after a delay. It is for tests and benches on one machine; the
// kernel's own emulation needs privileges and modules.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "hosts/transport.h"

namespace forerun {

struct LinkSpeed {
  std::chrono::nanoseconds delay{0};
  double bytes_per_second = 0.0;  // 0: no limit
};

class SlowLinks : public Transport {
 public:
  // `speed` applies to every link that leaves this rank.
  SlowLinks(std::unique_ptr<Transport> links, const LinkSpeed& speed);

  int32_t rank() const override { return links_->rank(); }
  int32_t num_ranks() const override { return links_->num_ranks(); }
  Status send(int32_t to, Bytes message) override;
  Result<std::optional<Received>> poll() override;
  bool has_sent_all() const override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Held {
    Clock::time_point until;
    Bytes message;
  };
  struct Link {
    Clock::time_point free;  // time when the last byte so far has left
    std::deque<Held> held;
  };
  Status release(Clock::time_point now);

  const std::unique_ptr<Transport> links_;
  const LinkSpeed speed_;
  std::vector<Link> to_;  // indexed by rank
};

}  // namespace forerun
