// A relay in front of a transport whose links can be cut while it runs, for trials: what would
// leave over a link that is cut waits until it is whole again, as with a cable that is pulled and
// put back, and nobody is told.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hosts/transport.h"

namespace forerun {

// Pairs of ranks, a pair a line ("1 2"), both ways round; what is none is passed over.
std::set<std::pair<int32_t, int32_t>> parse_cuts(std::string_view text);

class CutLinks : public Transport {
 public:
  // Cut are the links of the pairs in `file`, in both directions where all ranks read the same one;
  // it is looked at again and again, and need not be there.
  CutLinks(std::unique_ptr<Transport> links, std::string file);

  int32_t rank() const override { return links_->rank(); }
  int32_t num_ranks() const override { return links_->num_ranks(); }
  Status send(int32_t to, Bytes message) override;
  Result<std::optional<Received>> poll() override;
  bool has_sent_all() const override;

 private:
  using Clock = std::chrono::steady_clock;
  Status release();

  const std::unique_ptr<Transport> links_;
  const std::string file_;
  Clock::time_point looked_;
  std::set<std::pair<int32_t, int32_t>> cuts_;
  std::vector<std::deque<Bytes>> held_;  // by rank
};

}  // namespace forerun
