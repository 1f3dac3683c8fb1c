// A relay before a transport, for tests, with links that can be cut while it runs. As with a cable
// that is unplugged and plugged in again, messages over a cut link wait until the link is restored,
// and no process is told.
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

// Reads pairs of ranks, one pair per line ("1 2"), and returns each pair in both orders. Skips
// other lines.
std::set<std::pair<int32_t, int32_t>> parse_cuts(std::string_view text);

class CutLinks : public Transport {
 public:
  // Cuts this rank's links to its partners in `file`; if all ranks read the same file, links are
  // cut in both directions. The file is read repeatedly, and need not exist.
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
  std::vector<std::deque<Bytes>> held_;  // indexed by rank
};

}  // namespace forerun
