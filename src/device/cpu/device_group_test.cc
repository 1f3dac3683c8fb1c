#include "device/cpu/device_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/dtype.h"

namespace forerun {
namespace {

// Returns a partial sum of a device; some are huge, one column has NaN.
float partial_of(int32_t rank, int64_t row, int64_t column) {
  if (column == 5 && rank == 1) return std::numeric_limits<float>::quiet_NaN();
  const float scale = column % 7 == 0 ? 1e8f : 1.0f;
  return scale * std::sin(static_cast<float>(rank * 977 + row * 131 + column));
}

float start_of(int64_t row, int64_t column) {
  return std::cos(static_cast<float>(row * 17 + column));
}

TEST(CpuDeviceGroup, RunsAsOneDeviceOfAllItsThreads) {
  auto group = CpuDeviceGroup::create_unpinned({2, 1});
  ASSERT_TRUE(group.ok()) << group.status().message();
  std::unique_ptr<CpuDeviceGroup> one = (*group)->as_one_device();
  EXPECT_EQ(one->degree(), 1);
  EXPECT_EQ(one->team_size(0), 3);
  std::vector<int> ran(3);
  const auto work = [&](const GroupMember& member) {
    ASSERT_EQ(member.team.size(), 3);
    ASSERT_EQ(member.peers.degree(), 1);
    const auto rank = static_cast<size_t>(member.team.rank());
    ++ran[rank];
    member.team.sync();
    ASSERT_EQ(ran[(rank + 1) % 3], ran[rank]);
    member.team.sync();
  };
  for (int round = 1; round <= 3; ++round) {
    ASSERT_TRUE(one->run(work).ok());
    EXPECT_EQ(ran, std::vector<int>(3, round));
    std::atomic<int> seen = 0;  // counts the members of runs of the whole group in between
    const auto count = [&](const GroupMember& member) { seen += 1 + 10 * member.peers.rank(); };
    ASSERT_TRUE((*group)->run(count).ok());
    EXPECT_EQ(seen, 13);
  }
  group->reset();  // the threads live on
  ASSERT_TRUE(one->run(work).ok());
  EXPECT_EQ(ran, std::vector<int>(3, 4));
}

TEST(CpuDeviceGroup, SumsInRankOrderWithTheSameBitsOnEveryDevice) {
  constexpr int64_t kWidth = 1100;  // more than one piece, and no multiple of a vector's width
  for (const std::vector<int32_t>& sizes : std::vector<std::vector<int32_t>>{
           {1}, {1, 1}, {2, 1}, {1, 1, 1}, {2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}}) {
    const auto degree = static_cast<int32_t>(sizes.size());
    auto group = CpuDeviceGroup::create_unpinned(sizes);
    ASSERT_TRUE(group.ok()) << group.status().message();
    ASSERT_EQ((*group)->degree(), degree);
    std::vector<float> bias(kWidth);
    for (int64_t column = 0; column < kWidth; ++column) {
      bias[static_cast<size_t>(column)] = 0.25f * static_cast<float>(column % 11);
    }
    for (const bool rounds : {false, true}) {
      for (const int64_t rows : {1, 3}) {
        const auto count = static_cast<size_t>(rows * kWidth);
        std::vector<std::vector<float>> x(static_cast<size_t>(degree), std::vector<float>(count));
        std::vector<std::vector<float>> partials = x;
        for (int32_t rank = 0; rank < degree; ++rank) {
          for (int64_t row = 0; row < rows; ++row) {
            for (int64_t column = 0; column < kWidth; ++column) {
              const auto at = static_cast<size_t>(row * kWidth + column);
              partials[static_cast<size_t>(rank)][at] = partial_of(rank, row, column);
              x[static_cast<size_t>(rank)][at] = start_of(row, column);
            }
          }
        }
        const Status status = (*group)->run([&](const GroupMember& member) {
          const auto rank = static_cast<size_t>(member.peers.rank());
          member.peers.add_partials({partials[rank].data(), {rows, kWidth}}, bias, rounds,
                                    {x[rank].data(), {rows, kWidth}});
        });
        ASSERT_TRUE(status.ok()) << status.message();
        for (int64_t at = 0; at < rows * kWidth; ++at) {
          float sum = partial_of(0, at / kWidth, at % kWidth);
          for (int32_t rank = 1; rank < degree; ++rank) {
            sum += partial_of(rank, at / kWidth, at % kWidth);
          }
          float expected =
              start_of(at / kWidth, at % kWidth) + (sum + bias[static_cast<size_t>(at % kWidth)]);
          if (rounds) expected = round_to_bf16(expected);
          for (const std::vector<float>& replica : x) {
            const float found = replica[static_cast<size_t>(at)];
            if (std::isnan(expected)) {
              ASSERT_TRUE(std::isnan(found)) << at;
            } else {
              ASSERT_EQ(found, expected) << at;
            }
          }
        }
      }
    }
  }
}

// Two buffers in turn are enough, whichever device is ahead.
TEST(CpuDeviceGroup, PartialsOfTwoBuffersAreNeverOverwrittenTooEarly) {
  auto group = CpuDeviceGroup::create_unpinned({1, 2, 1});
  ASSERT_TRUE(group.ok());
  constexpr int kRounds = 400;
  constexpr int64_t kWidth = 48;
  std::vector<std::vector<float>> x(3, std::vector<float>(kWidth, 0.0f));
  std::vector<std::vector<float>> buffers(6, std::vector<float>(kWidth));
  const Status status = (*group)->run([&](const GroupMember& member) {
    const auto rank = static_cast<size_t>(member.peers.rank());
    for (int round = 0; round < kRounds; ++round) {
      std::vector<float>& partial = buffers[2 * rank + static_cast<size_t>(round % 2)];
      const WorkRange share = member.team.share(kWidth, 16);
      for (int64_t at = share.begin; at < share.end; ++at) {
        partial[static_cast<size_t>(at)] = static_cast<float>(round % 5);
      }
      member.peers.add_partials({partial.data(), {1, kWidth}}, {}, false,
                                {x[rank].data(), {1, kWidth}});
    }
  });
  ASSERT_TRUE(status.ok()) << status.message();
  for (const std::vector<float>& replica : x) {
    for (const float value : replica) EXPECT_EQ(value, 3.0f * 2.0f * kRounds);
  }
}

TEST(CpuDeviceGroup, GathersPartsOfAnySizeByRank) {
  auto group = CpuDeviceGroup::create_unpinned({2, 3, 2, 2});
  ASSERT_TRUE(group.ok());
  ASSERT_EQ((*group)->smallest_team(), 2);
  std::atomic<int> checked{0};
  const Status status = (*group)->run([&](const GroupMember& member) {
    const int32_t column = member.team.rank();
    if (column >= 2) return;
    // Different columns may gather a different number of times.
    for (int32_t round = 0; round < 50 + column; ++round) {
      const std::vector<int32_t> own_numbers(static_cast<size_t>(member.peers.rank() * 3),
                                             1000 * round + member.peers.rank());
      std::vector<int32_t> all;
      gather_records<int32_t>(member.peers, own_numbers, all);
      std::vector<int32_t> expected;
      for (int32_t rank = 0; rank < 4; ++rank) {
        expected.insert(expected.end(), static_cast<size_t>(rank * 3), 1000 * round + rank);
      }
      if (all == expected) ++checked;
    }
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(checked, 4 * (50 + 51));
}

CpuGroupOptions faulty(int32_t degree, std::function<Status(int32_t)> fault) {
  CpuGroupOptions options;
  options.devices.resize(static_cast<size_t>(degree), {{}, 2});
  options.timeout = std::chrono::milliseconds(400);
  options.before_collective = std::move(fault);
  return options;
}

// Makes every device add partial sums several times and sync its team in between.
Status exercise(CpuDeviceGroup& group, float* outcome) {
  std::vector<std::vector<float>> x(static_cast<size_t>(group.degree()), std::vector<float>(32));
  const std::vector<float> ones(32, 1.0f);
  Status status = group.run([&](const GroupMember& member) {
    std::vector<float>& own_x = x[static_cast<size_t>(member.peers.rank())];
    for (int round = 0; round < 4; ++round) {
      member.peers.add_partials({ones.data(), {1, 32}}, {}, false, {own_x.data(), {1, 32}});
      member.team.sync();
    }
  });
  *outcome = x.back().back();
  return status;
}

TEST(CpuDeviceGroup, AFailingDeviceEndsTheRunAndNotTheGroup) {
  for (int32_t failing = 0; failing < 3; ++failing) {
    std::atomic<int> calls{0};
    auto group = CpuDeviceGroup::create(faulty(3, [&](int32_t rank) {
      return rank == failing && ++calls == 3 ? Status(StatusCode::kInternal, "it broke") : Status();
    }));
    ASSERT_TRUE(group.ok());
    float outcome = 0.0f;
    const Status status = exercise(**group, &outcome);
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_EQ(status.message(), "device " + std::to_string(failing) + ": it broke");
    for (int again = 0; again < 3; ++again) {
      EXPECT_TRUE(exercise(**group, &outcome).ok());
      EXPECT_EQ(outcome, 12.0f);
    }
  }
}

TEST(CpuDeviceGroup, AnExceptionOfAMemberEndsTheRun) {
  auto group = CpuDeviceGroup::create_unpinned({2, 2});
  ASSERT_TRUE(group.ok());
  for (int32_t culprit = 0; culprit < 2; ++culprit) {
    const Status status = (*group)->run([&](const GroupMember& member) {
      if (member.peers.rank() == 1 && member.team.rank() == culprit) throw std::bad_alloc();
      member.team.sync();
      member.peers.gather({});
    });
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_NE(status.message().find("device 1"), std::string::npos) << status.message();
  }
  float outcome = 0.0f;
  EXPECT_TRUE(exercise(**group, &outcome).ok());
}

// Columns gather a different number of times; the group must not name a device as late for that.
TEST(CpuDeviceGroup, ALateDeviceIsNamedWhateverOthersHaveGathered) {
  auto group = CpuDeviceGroup::create({.devices = {{{}, 2}, {{}, 2}},
                                       .timeout = std::chrono::milliseconds(300),
                                       .before_collective = {}});
  ASSERT_TRUE(group.ok());
  for (const bool in_a_gather : {false, true}) {
    const Status status = (*group)->run([&](const GroupMember& member) {
      const std::byte told{1};
      for (int i = 0; i < 3 && member.team.rank() == 0; ++i) member.peers.gather({&told, 1});
      if (member.peers.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(900));
      if (in_a_gather) {
        if (member.team.rank() == 1) member.peers.gather({&told, 1});
        return;
      }
      std::vector<float> partial(32, 1.0f), x(32, 0.0f);
      member.peers.add_partials(MatrixView<const float>(partial.data(), {1, 32}), {}, false,
                                MatrixView<float>(x.data(), {1, 32}));
    });
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
    EXPECT_NE(status.message().find("device 1 of 2"), std::string::npos) << status.message();
  }
}

TEST(CpuDeviceGroup, ALateDeviceIsNamedAndTheGroupRunsAgain) {
  std::atomic<bool> late{true};
  auto group = CpuDeviceGroup::create(faulty(3, [&](int32_t rank) {
    if (rank == 1 && late.exchange(false)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
    }
    return Status();
  }));
  ASSERT_TRUE(group.ok());
  float outcome = 0.0f;
  const Status status = exercise(**group, &outcome);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("device 1 of 3"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("400 ms"), std::string::npos) << status.message();
  EXPECT_TRUE(exercise(**group, &outcome).ok());
  EXPECT_EQ(outcome, 12.0f);
}

// Whichever device fails, and wherever the others are, no run hangs and the next run works.
TEST(CpuDeviceGroup, RandomFaultsLeaveTheGroupUsable) {
  std::atomic<int32_t> culprit{-1};
  std::atomic<int> countdown{0};
  CpuGroupOptions options;
  options.devices = {{{}, 2}, {{}, 1}, {{}, 3}, {{}, 1}};
  options.before_collective = [&](int32_t rank) {
    return rank == culprit && --countdown == 0 ? Status(StatusCode::kInternal, "it broke")
                                               : Status();
  };
  auto group = CpuDeviceGroup::create(options);
  ASSERT_TRUE(group.ok());
  uint32_t state = 7;
  for (int round = 0; round < 300; ++round) {
    state = state * 1664525u + 1013904223u;
    countdown = 1 + static_cast<int>(state >> 16) % 4;
    culprit = static_cast<int32_t>((state >> 24) % 4u);
    float outcome = 0.0f;
    ASSERT_EQ(exercise(**group, &outcome).message(),
              "device " + std::to_string(culprit) + ": it broke");
    culprit = -1;
    if (round % 3 != 0) continue;
    ASSERT_TRUE(exercise(**group, &outcome).ok());
    ASSERT_EQ(outcome, 16.0f);
  }
}

TEST(CpuDeviceGroup, DevicesMayShareCoresAndUnknownOnesAreRefused) {
  const int32_t core = available_cores().front();
  CpuGroupOptions options;
  options.devices.resize(5, {{core}, 0});
  auto group = CpuDeviceGroup::create(options);
  ASSERT_TRUE(group.ok()) << group.status().message();
  float outcome = 0.0f;
  EXPECT_TRUE(exercise(**group, &outcome).ok());
  EXPECT_EQ(outcome, 20.0f);
  options.devices.back().cores = {100000};
  EXPECT_EQ(CpuDeviceGroup::create(options).status().code(), StatusCode::kInvalidArgument);
  options.devices.back() = {{}, 2};  // an unpinned device beside pinned ones
  EXPECT_EQ(CpuDeviceGroup::create(options).status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(CpuDeviceGroup::create(CpuGroupOptions{}).ok());
  EXPECT_FALSE(CpuDeviceGroup::create_unpinned({1, 0}).ok());
}

}  // namespace
}  // namespace forerun
