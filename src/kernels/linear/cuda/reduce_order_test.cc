// Tests the order in which a group's sums are added: the ranks' sums cancel, so that any other
// order gives other bits. All ranks run on one GPU; the layer is so narrow that the blocks of all
// ranks fit at once. (linear/cuda/reduce_test.cc tests equal shards, delays and failures.)
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/cuda_testing.h"
#include "device/cuda/peer_group.h"
#include "kernels/linear/cuda/linear.h"

namespace forerun::cuda {
namespace {

using Bits = std::vector<uint16_t>;

constexpr int64_t kInputs = 256;
constexpr int64_t kOutputs = 512;  // at most 32 blocks per rank; a GPU has room for 132
constexpr int kMaxRows = 200;
constexpr int kExchanges = 6;

class Rank {
 public:
  // Weights are `scale` times those of the seed, exactly if `scale` is a power of two.
  Rank(uint32_t seed, float scale) {
    EXPECT_TRUE(prepare_linear_cuda().ok());
    stream_.emplace(Stream::create().value());
    Bits source = random_bf16(static_cast<size_t>(kInputs * kOutputs), 0.05f, seed);
    for (uint16_t& value : source) value = to_bf16(scale * to_float(bf16{value})).bits;
    const DeviceBuffer on_device = to_device(source);
    weight_ =
        LinearWeightCuda::allocate(*plan_linear(LinearFormat::kBf16, kInputs, kOutputs)).value();
    EXPECT_TRUE(weight_
                    .pack_bf16(on_device.as<__nv_bfloat16>(), kOutputs, OutputPlacement::kPlain, 0,
                               stream_->get())
                    .ok());
    EXPECT_TRUE(stream_->synchronize().ok());
    input_ = to_device(random_bf16(static_cast<size_t>(kMaxRows * kInputs), 1.0f, 9));
    output_ = to_device(Bits(kMaxRows * kOutputs));
    scratch_ = LinearScratchBuffer::allocate().value();
    failed_ = to_device(std::vector<uint32_t>(1));
  }

  // Submits the layer, with an all-reduce if there is a group. Does not wait.
  Status submit(int rows, const PeerMailboxes* group, int mailbox) const {
    return linear_cuda(weight_,
                       {.input = input_.as<uint16_t>(),
                        .input_stride = kInputs,
                        .output = output_.as<uint16_t>(),
                        .output_stride = kOutputs,
                        .rows = rows,
                        .reduce = group,
                        .mailbox = mailbox,
                        .scratch = scratch_.view(failed_.as<uint32_t>())},
                       stream_->get());
  }
  Bits result(int rows) const {
    EXPECT_TRUE(stream_->synchronize().ok());
    return to_host<uint16_t>(output_, static_cast<size_t>(rows * kOutputs));
  }

 private:
  std::optional<Stream> stream_;
  LinearWeightCuda weight_;
  DeviceBuffer input_, output_, failed_;
  LinearScratchBuffer scratch_;
};

Bits summed(const std::vector<Bits>& parts, const std::vector<size_t>& order) {
  Bits sums(parts[0].size());
  for (size_t i = 0; i < sums.size(); ++i) {
    float sum = 0.0f;
    for (const size_t rank : order) sum += to_float(bf16{parts[rank][i]});
    sums[i] = to_bf16(sum).bits;
  }
  return sums;
}

struct Group {
  std::string name;
  // These are by rank. A large sum and its negative have the same seed.
  std::vector<std::pair<uint32_t, float>> seeds_and_scales;
  bool two_shot = false;
};
constexpr float kLarge = 0x1p22f;  // added to it, a sum of the usual size keeps some bits

class OrderOfRanks : public ::testing::TestWithParam<Group> {};

TEST_P(OrderOfRanks, IsTheOrderOfTheSum) {
  SKIP_WITHOUT_GPUS(1);
  std::vector<Rank> ranks;
  for (const auto& [seed, scale] : GetParam().seeds_and_scales) ranks.emplace_back(seed, scale);
  const std::vector<int> devices(ranks.size(), 0);
  const Result<PeerGroup> group = PeerGroup::create(
      devices, {.max_rows = kMaxRows,
                .width = kOutputs,
                .wait_limit_ms = 2000,
                .two_shot_bytes = GetParam().two_shot ? 0 : std::numeric_limits<int64_t>::max(),
                .shared_gpus = true});
  ASSERT_TRUE(group.ok()) << group.status().message();
  // The last two numbers of rows use the kernel for many rows.
  for (const int rows : {1, 8, 13, 32, 100, 200}) {
    std::vector<Bits> parts;
    for (const Rank& rank : ranks) {
      ASSERT_OK(rank.submit(rows, nullptr, 0));
      parts.push_back(rank.result(rows));
    }
    std::vector<size_t> order(ranks.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const Bits expected = summed(parts, order);
    for (size_t first = 1; first < ranks.size(); ++first) {
      // This is the order if each rank added its own sum first.
      std::rotate(order.begin(), order.begin() + 1, order.end());
      ASSERT_NE(summed(parts, order), expected) << "this case shows nothing";
    }
    std::iota(order.rbegin(), order.rend(), size_t{0});
    ASSERT_NE(summed(parts, order), expected) << "this case shows nothing";

    for (int exchange = 0; exchange < kExchanges; ++exchange) {
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        ASSERT_OK(ranks[rank].submit(rows, &group->rank(static_cast<int>(rank)), exchange % 2));
      }
      for (const Rank& rank : ranks) EXPECT_TRUE(rank.result(rows) == expected) << rows << " rows";
      ASSERT_OK(group->check());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, OrderOfRanks,
                         ::testing::Values(Group{"OfThree", {{1, kLarge}, {1, -kLarge}, {2, 1.0f}}},
                                           Group{"OfFour",
                                                 {{1, kLarge}, {2, 1.0f}, {1, -kLarge}, {3, 1.0f}}},
                                           Group{"OfFourInTwoShots",
                                                 {{1, kLarge}, {2, 1.0f}, {1, -kLarge}, {3, 1.0f}},
                                                 /*two_shot=*/true}),
                         [](const auto& group) { return group.param.name; });

}  // namespace
}  // namespace forerun::cuda
