// A launch of a target's stages for tests: every rank is a thread of this process.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "hosts/hosts.h"
#include "hosts/local_transport.h"

namespace forerun {

// Calls `start` on every rank of a launch of `num_stages` stages, each on its own thread, with a
// shared_ptr to that rank's Hosts. Returns the results by rank after all of them have returned;
// until then no rank leaves the launch. `start` returns a Result or a Status. If a rank cannot
// join, its result is the reason.
template <class Start>
auto start_on_all_ranks(int32_t num_stages, const Start& start) {
  using Started = decltype(start(std::declval<const std::shared_ptr<Hosts>&>()));
  const auto num_ranks = static_cast<size_t>(num_stages) + 1;
  LocalNetwork network(num_stages + 1);
  std::vector<std::shared_ptr<Hosts>> hosts(num_ranks);
  std::vector<std::optional<Started>> started(num_ranks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto joined = Hosts::join(network.transport(static_cast<int32_t>(rank)), {});
      if (!joined.ok()) {
        started[rank].emplace(joined.status());
        return;
      }
      hosts[rank] = std::move(*joined);
      started[rank].emplace(start(hosts[rank]));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Started> results;
  for (std::optional<Started>& each : started) results.push_back(std::move(*each));
  return results;
}

// Expects that every rank has failed with this code and with a message that contains `part`.
template <class Started>
void expect_all_fail(const std::vector<Started>& results, StatusCode code, const char* part) {
  for (size_t rank = 0; rank < results.size(); ++rank) {
    Status status;
    if constexpr (std::is_same_v<Started, Status>) {
      status = results[rank];
    } else {
      status = results[rank].status();
    }
    EXPECT_EQ(status.code(), code) << "rank " << rank << ": " << status.message();
    EXPECT_NE(status.message().find(part), std::string::npos)
        << "rank " << rank << ": " << status.message();
  }
}

}  // namespace forerun
