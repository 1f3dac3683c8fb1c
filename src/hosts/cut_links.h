// A relay in front of a transport whose links can be cut while it runs, for trials: what would
// leave over a link that is cut is lost, as when a cable is pulled, and nobody is told.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "hosts/transport.h"

namespace forerun {

// Pairs of ranks, a pair a line ("1 2"); what is none is passed over.
std::set<std::pair<int32_t, int32_t>> parse_cuts(std::string_view text);

class CutLinks : public Transport {
 public:
  // Cut are the links of the pairs in `file`, in both directions where all ranks read the same one;
  // it is looked at again and again, and need not be there.
  CutLinks(std::unique_ptr<Transport> links, std::string file);

  int32_t rank() const override { return links_->rank(); }
  int32_t num_ranks() const override { return links_->num_ranks(); }
  Status send(int32_t to, Bytes message) override;
  Result<std::optional<Received>> poll() override { return links_->poll(); }
  bool has_sent_all() const override { return links_->has_sent_all(); }

 private:
  using Clock = std::chrono::steady_clock;

  const std::unique_ptr<Transport> links_;
  const std::string file_;
  Clock::time_point looked_;
  std::set<std::pair<int32_t, int32_t>> cuts_;
};

}  // namespace forerun
