#include "hosts/cut_links.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/testing.h"
#include "hosts/local_transport.h"

namespace forerun {
namespace {

TEST(CutLinks, ReadsPairsAndNothingElse) {
  using Cuts = std::set<std::pair<int32_t, int32_t>>;
  EXPECT_EQ(parse_cuts(""), Cuts{});
  EXPECT_EQ(parse_cuts("1 2\nnone\n3\n\n 0   3 trailing"), (Cuts{{0, 3}, {3, 0}, {1, 2}, {2, 1}}));
}

TEST(CutLinks, HoldsWhatLeavesWhileTheFileSaysSo) {
  const TempDir folder;
  const std::string file = (folder.path() / "cuts").string();
  LocalNetwork network(3);
  CutLinks from(network.transport(0), file);
  const auto to = network.transport(1), beside = network.transport(2);
  const auto look_again = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_TRUE(from.poll().ok());
  };
  // Returns the sizes of the messages that have arrived, in order.
  const auto arrived = [](Transport& transport) {
    std::vector<size_t> sizes;
    for (auto next = transport.poll(); next.ok() && *next; next = transport.poll()) {
      sizes.push_back((*next)->message.size());
    }
    return sizes;
  };
  EXPECT_TRUE(from.send(1, Bytes(1)).ok());
  EXPECT_EQ(arrived(*to), std::vector<size_t>{1});
  std::ofstream(file) << "1 0\n";
  look_again();
  EXPECT_TRUE(from.send(1, Bytes(2)).ok());
  EXPECT_TRUE(from.send(1, Bytes(3)).ok());
  EXPECT_TRUE(from.send(2, Bytes(4)).ok());
  EXPECT_EQ(arrived(*to), std::vector<size_t>{});
  EXPECT_EQ(arrived(*beside), std::vector<size_t>{4});
  EXPECT_FALSE(from.has_sent_all());
  std::filesystem::remove(file);
  look_again();
  EXPECT_EQ(arrived(*to), (std::vector<size_t>{2, 3}));
  EXPECT_TRUE(from.has_sent_all());
}

}  // namespace
}  // namespace forerun
