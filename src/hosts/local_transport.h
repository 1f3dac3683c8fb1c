// Simulates the processes of a launch with threads of one process, for tests: every rank has a
// transport, and the links between ranks can be cut.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "hosts/transport.h"

namespace forerun {

// Thread rules: methods may be called from any thread. Must outlive its transports.
class LocalNetwork {
 public:
  explicit LocalNetwork(int32_t num_ranks) : inboxes_(static_cast<size_t>(num_ranks)) {}

  std::unique_ptr<Transport> transport(int32_t rank);
  // Drops messages between the two ranks from now on.
  void cut(int32_t rank_a, int32_t rank_b);

 private:
  class Rank;

  std::mutex mutex_;
  std::vector<std::deque<Received>> inboxes_;
  std::set<std::pair<int32_t, int32_t>> cut_;  // the smaller rank first
};

}  // namespace forerun
