// Tests the all-reduce over a group inside the linear kernel. Tests that need one to four GPUs of
// compute capability 9.0 skip themselves elsewhere.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/dtype.h"
#include "base/status_macros.h"
#include "device/cuda/cuda_devices.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/cuda_testing.h"
#include "device/cuda/peer_group.h"
#include "kernels/linear/cuda/linear.h"

namespace forerun::cuda {
namespace {

using Bits = std::vector<uint16_t>;

constexpr int64_t kWidth = 2088;  // neither whole tiles nor a multiple of the number of blocks
constexpr int kMaxRows = 1024;
constexpr int kDelayRows = 256;
constexpr int kLayers = 6;  // exchanges in a chain

// One rank's part of a chain of layers x += sum over ranks of W * (first inputs of x) + bias: its
// weights, x before, between and after the layers, and a graph of the chain.
class Rank {
 public:
  // `inputs` is the number of this rank's inputs, so that ranks may have different splits. With
  // `in_passes` its blocks have more tiles than warps for them (at least 512 inputs).
  Rank(int device, int64_t inputs, uint32_t seed, bool in_passes = false)
      : device_(device), inputs_(inputs) {
    use();
    EXPECT_TRUE(prepare_linear_cuda().ok());
    Result<Stream> stream = Stream::create();
    EXPECT_TRUE(stream.ok());
    stream_.emplace(std::move(stream).value());
    const Result<LinearPlan> plan = in_passes
                                        ? plan_linear(LinearFormat::kBf16, inputs, kWidth, 4, 4)
                                        : plan_linear(LinearFormat::kBf16, inputs, kWidth);
    EXPECT_TRUE(plan.ok());
    const Result<LinearLaunch> launch = plan_launch(*plan, 8, 227 << 10);
    EXPECT_TRUE(launch.ok());
    EXPECT_EQ(launch->schedule == TileSchedule::kMultiPass, in_passes);
    for (uint32_t layer = 0; layer < 2; ++layer) {
      const DeviceBuffer source =
          to_device(random_bf16(static_cast<size_t>(inputs * kWidth), 0.01f, seed + layer * 1000));
      Result<LinearWeightCuda> weight = LinearWeightCuda::allocate(*plan);
      EXPECT_TRUE(weight.ok());
      EXPECT_TRUE(weight
                      ->pack_bf16(source.as<__nv_bfloat16>(), kWidth, OutputPlacement::kPlain, 0,
                                  stream_->get())
                      .ok());
      EXPECT_TRUE(stream_->synchronize().ok());
      weights_.push_back(std::move(weight).value());
    }
    bias_ = to_device(random_bf16(kWidth, 0.5f, 77));  // the same on every rank
    for (DeviceBuffer& x : x_) x = to_device(Bits(kMaxRows * kWidth));
    scratch_ = to_device(Bits(kMaxRows * kWidth));
    Result<LinearScratchBuffer> shared_tiles = LinearScratchBuffer::allocate();
    EXPECT_TRUE(shared_tiles.ok());
    shared_tiles_ = std::move(shared_tiles).value();
    failed_ = to_device(std::vector<uint32_t>(1));
  }

  void use() const { EXPECT_TRUE(use_device(device_).ok()); }
  const Stream& stream() const { return *stream_; }

  LinearCall call(int layer, int rows) const {
    LinearCall call;
    call.input = x_[input_of(layer)].as<uint16_t>();
    call.input_stride = kWidth;
    call.output = x_[1 + layer % 2].as<uint16_t>();
    call.output_stride = kWidth;
    call.rows = rows;
    call.residual = x_[input_of(layer)].as<__nv_bfloat16>();
    call.bias = layer % 3 == 0 ? bias_.as<__nv_bfloat16>() : nullptr;
    call.mailbox = layer % 2;
    call.scratch = shared_tiles_.view(failed_.as<uint32_t>());
    return call;
  }
  Status submit(int layer, int rows, const PeerMailboxes& peers) const {
    LinearCall c = call(layer, rows);
    c.reduce = &peers;
    return linear_cuda(weight(layer), c, stream_->get());
  }
  // `before(layer)` returns the number of other layers that run before each layer, as a delay.
  Graph chain(
      int rows, const PeerMailboxes& peers,
      const std::function<int(int)>& before = [](int) { return 0; }) const {
    use();
    Result<Graph> graph = Graph::capture(*stream_, [&] {
      for (int layer = 0; layer < kLayers; ++layer) {
        const int delays = before(layer);
        for (int i = 0; i < delays; ++i) {
          LinearCall c = call(layer, kDelayRows);
          c.output = scratch_.as<uint16_t>();
          c.residual = nullptr;
          FORERUN_RETURN_IF_ERROR(linear_cuda(weight(layer), c, stream_->get()));
        }
        FORERUN_RETURN_IF_ERROR(submit(layer, rows, peers));
      }
      return Status();
    });
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    return std::move(graph).value();
  }
  void set_x(const Bits& x) const {
    use();
    EXPECT_TRUE(x_[0].upload(std::as_bytes(std::span(x))).ok());
    const Bits poison(kMaxRows * kWidth, 0x7fc1);
    for (int i = 1; i < 3; ++i) {
      EXPECT_TRUE(x_[i].upload(std::as_bytes(std::span(poison))).ok());
    }
  }
  Bits result(int rows, int layer = kLayers - 1) const {
    use();
    return to_host<uint16_t>(x_[1 + layer % 2], static_cast<size_t>(rows * kWidth));
  }
  // Returns this rank's rounded sums of a layer, computed without a group.
  Bits partial(int layer, int rows, const Bits& x) const {
    use();
    EXPECT_TRUE(x_[input_of(layer)].upload(std::as_bytes(std::span(x))).ok());
    LinearCall c = call(layer, rows);
    c.output = scratch_.as<uint16_t>();
    c.residual = nullptr;
    c.bias = nullptr;
    EXPECT_TRUE(linear_cuda(weight(layer), c, stream_->get()).ok());
    EXPECT_TRUE(stream_->synchronize().ok());
    return to_host<uint16_t>(scratch_, static_cast<size_t>(rows * kWidth));
  }
  Bits bias() const {
    use();
    return to_host<uint16_t>(bias_, kWidth);
  }

 private:
  static size_t input_of(int layer) { return layer == 0 ? 0 : 1 + (layer - 1) % 2; }
  const LinearWeightCuda& weight(int layer) const {
    return weights_[static_cast<size_t>(layer % 2)];
  }

  int device_;
  int64_t inputs_;
  std::optional<Stream> stream_;
  std::vector<LinearWeightCuda> weights_;
  DeviceBuffer bias_, x_[3], scratch_, failed_;
  LinearScratchBuffer shared_tiles_;
};

// Returns the chain's expected result: partial sums of `ranks` in rank order, then bias, residual
// and one rounding.
Bits reference(const std::vector<const Rank*>& ranks, int rows, Bits x) {
  const Bits bias = ranks[0]->bias();
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<float> sums(x.size());
    for (const Rank* rank : ranks) {
      const Bits part = rank->partial(layer, rows, x);
      for (size_t i = 0; i < x.size(); ++i) sums[i] += to_float(bf16{part[i]});
    }
    for (size_t i = 0; i < x.size(); ++i) {
      if (layer % 3 == 0) sums[i] += to_float(bf16{bias[i % kWidth]});
      x[i] = to_bf16(sums[i] + to_float(bf16{x[i]})).bits;
    }
  }
  return x;
}

Bits start_rows(int rows) { return random_bf16(static_cast<size_t>(rows * kWidth), 1.0f, 5); }

PeerGroupOptions group_options(int wait_limit_ms = 3000) {
  return {.max_rows = kMaxRows, .width = kWidth, .wait_limit_ms = wait_limit_ms};
}

class OneGpu : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_GPUS(1); }
};

TEST_F(OneGpu, LoopbackAddsEqualPartialsForEveryDegreeAndRowCount) {
  const Rank at_once(0, 512, 1);
  const Rank in_passes(0, 1024, 1, /*in_passes=*/true);
  for (const auto& [rank, on_host] :
       {std::pair<const Rank&, bool>(at_once, false), {in_passes, false}, {at_once, true}}) {
    for (const int degree : {2, 3, 4, 8}) {
      if (&rank == &in_passes && degree != 4) continue;
      PeerGroupOptions options = group_options();
      options.mailboxes_on_host = on_host;
      Result<PeerGroup> group = PeerGroup::loopback(0, degree, options);
      ASSERT_TRUE(group.ok()) << group.status().message();
      EXPECT_EQ(group->degree(), degree);
      Bits fewer;  // the result of fewer rows
      for (const int rows : {1, 8, 13, 16, 32, 33, 256, 1000}) {
        if ((on_host && rows > 13) || (rows == 1000 && degree > 2)) continue;
        const std::vector<const Rank*> ranks(static_cast<size_t>(degree), &rank);
        const Bits expected = reference(ranks, rows, start_rows(rows));
        EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), expected.begin()))
            << "a row's bits depend on the other rows";
        fewer = expected;
        const Graph graph = rank.chain(rows, group->rank(0));
        for (int replay = 0; replay < 5; ++replay) {
          rank.set_x(start_rows(rows));
          // The last replay launches many graphs in a row, which alternate between the mailboxes
          // without a pause.
          for (int i = 0; i < (replay == 4 ? 40 : 1); ++i) ASSERT_OK(graph.launch(rank.stream()));
          ASSERT_OK(rank.stream().synchronize());
          ASSERT_OK(group->check());
          ASSERT_TRUE(rank.result(rows) == expected)
              << (&rank == &in_passes ? "in passes, " : "") << "degree " << degree << ", " << rows
              << " rows, replay " << replay << (on_host ? ", mailboxes on the host" : "");
        }
      }
    }
  }
}

TEST_F(OneGpu, ARowOfNanIsNotTakenForOneThatHasNotArrived) {
  const Rank rank(0, 512, 1);
  Result<PeerGroup> group = PeerGroup::loopback(0, 4, group_options());
  ASSERT_TRUE(group.ok()) << group.status().message();
  Bits x = start_rows(3);
  std::fill(x.begin() + kWidth, x.begin() + 2 * kWidth, uint16_t{0xffff});
  rank.set_x(x);
  const Graph graph = rank.chain(3, group->rank(0));
  ASSERT_OK(graph.launch(rank.stream()));
  ASSERT_OK(rank.stream().synchronize());
  ASSERT_OK(group->check());
  const Bits y = rank.result(3);
  const Bits expected = reference({&rank, &rank, &rank, &rank}, 3, start_rows(3));
  for (size_t i = 0; i < kWidth; ++i) {
    ASSERT_EQ(y[i], expected[i]);
    ASSERT_TRUE(std::isnan(to_float(bf16{y[kWidth + i]})));
    ASSERT_EQ(y[2 * kWidth + i], expected[2 * kWidth + i]);
  }
}

// Returns a view in which rank 1 never sends.
PeerMailboxes without_rank_1(const PeerGroup& group) {
  PeerMailboxes view = group.rank(0);
  view.send[1] = view.send[0];
  return view;
}

TEST_F(OneGpu, AMissingRankEndsTheWaitingByItsLimitAndResetMendsTheGroup) {
  const Rank rank(0, 512, 1);
  Result<PeerGroup> group = PeerGroup::loopback(0, 2, group_options(50));
  ASSERT_TRUE(group.ok()) << group.status().message();
  const PeerMailboxes broken = without_rank_1(*group);
  const Graph graph = rank.chain(40, broken);
  rank.set_x(start_rows(40));
  ASSERT_OK(graph.launch(rank.stream()));
  ASSERT_OK(rank.stream().synchronize());
  const Status failed = group->check();
  EXPECT_EQ(failed.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(failed.message().find("rank 0 (cuda:0)"), std::string::npos) << failed.message();
  EXPECT_NE(failed.message().find("for rank 1"), std::string::npos) << failed.message();
  EXPECT_NE(failed.message().find("50 ms"), std::string::npos) << failed.message();

  ASSERT_OK(group->reset());
  const Graph whole = rank.chain(40, group->rank(0));
  rank.set_x(start_rows(40));
  ASSERT_OK(whole.launch(rank.stream()));
  ASSERT_OK(rank.stream().synchronize());
  ASSERT_OK(group->check());
  const Bits mended = rank.result(40);
  EXPECT_TRUE(mended == reference({&rank, &rank}, 40, start_rows(40)));
}

TEST_F(OneGpu, AbortEndsTheWaitingLongBeforeItsLimit) {
  const Rank rank(0, 512, 1);
  Result<PeerGroup> group = PeerGroup::loopback(0, 2, group_options(20'000));
  ASSERT_TRUE(group.ok()) << group.status().message();
  const PeerMailboxes broken = without_rank_1(*group);
  const Graph graph = rank.chain(8, broken);
  rank.set_x(start_rows(8));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_OK(graph.launch(rank.stream()));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  group->abort();
  ASSERT_OK(rank.stream().synchronize());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(group->check().code(), StatusCode::kCancelled);
  ASSERT_OK(group->reset());
  EXPECT_TRUE(group->check().ok());
}

TEST_F(OneGpu, RefusesWhatItCannotSum) {
  const Rank rank(0, 512, 1);
  Result<PeerGroup> group =
      PeerGroup::loopback(0, 2, {.max_rows = 16, .width = kWidth, .wait_limit_ms = 100});
  ASSERT_TRUE(group.ok()) << group.status().message();
  EXPECT_EQ(rank.submit(0, 17, group->rank(0)).code(), StatusCode::kInvalidArgument);
  const Result<LinearPlan> plan = plan_linear(LinearFormat::kBf16, 64, 64);
  ASSERT_TRUE(plan.ok());
  const Result<LinearWeightCuda> weight = LinearWeightCuda::allocate(*plan);
  ASSERT_TRUE(weight.ok());
  LinearCall call = rank.call(0, 8);
  call.residual = nullptr;
  call.bias = nullptr;
  call.reduce = &group->rank(0);
  LinearCall bad = call;
  bad.gated = true;
  EXPECT_EQ(linear_cuda(*weight, bad, rank.stream().get()).code(), StatusCode::kInvalidArgument);
  bad = call;
  bad.mailbox = 2;
  EXPECT_EQ(linear_cuda(*weight, bad, rank.stream().get()).code(), StatusCode::kInvalidArgument);
  bad = call;
  bad.output = nullptr;
  bad.output_f32 = reinterpret_cast<float*>(call.output);
  EXPECT_EQ(linear_cuda(*weight, bad, rank.stream().get()).code(), StatusCode::kInvalidArgument);
}

struct Group {
  int gpus;
  bool two_shot;
};

class SeveralGpus : public ::testing::TestWithParam<Group> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPUS(GetParam().gpus);
    // Ranks have different numbers of inputs, so that a word's sender and receiver are different
    // threads.
    constexpr int64_t kInputs[] = {256, 2048, 512, 1024};
    for (int gpu = 0; gpu < GetParam().gpus; ++gpu) {
      gpus_.push_back(gpu);
      ranks_.push_back(std::make_unique<Rank>(gpu, kInputs[gpu], static_cast<uint32_t>(gpu + 1),
                                              /*in_passes=*/gpu % 2 == 1));
    }
  }
  static PeerGroupOptions options(int wait_limit_ms = 3000) {
    PeerGroupOptions options = group_options(wait_limit_ms);
    options.two_shot_bytes = GetParam().two_shot ? 0 : std::numeric_limits<int64_t>::max();
    return options;
  }
  Bits expected(int rows) const {
    std::vector<const Rank*> ranks;
    for (const auto& rank : ranks_) ranks.push_back(rank.get());
    return reference(ranks, rows, start_rows(rows));
  }
  // Runs `run` on one thread per rank.
  void on_all(const std::function<void(size_t rank)>& run) const {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) threads.emplace_back(run, rank);
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<int> gpus_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_P(SeveralGpus, AgreeBitForBitWhateverTheDelays) {
  for (const bool on_host : {false, true}) {
    PeerGroupOptions group_options = options();
    group_options.mailboxes_on_host = on_host;
    Result<PeerGroup> group = PeerGroup::create(gpus_, group_options);
    ASSERT_TRUE(group.ok()) << group.status().message();
    for (const int rows : {1, 8, 13, 32, 64, 256}) {
      if (on_host && rows > 13) continue;
      const Bits wanted = expected(rows);
      // Runs chains with delays at random places, which differ between ranks.
      std::mt19937 places(static_cast<uint32_t>(rows));
      std::vector<std::vector<Graph>> chains(ranks_.size());
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        for (int kind = 0; kind < 4; ++kind) {
          chains[rank].push_back(
              ranks_[rank]->chain(rows, group->rank(static_cast<int>(rank)), [&](int) {
                return kind == 0 || places() % 3 != 0 ? 0 : static_cast<int>(places() % 4);
              }));
        }
        ranks_[rank]->set_x(start_rows(rows));
      }
      for (int round = 0; round < (on_host ? 2 : 10); ++round) {
        on_all([&](size_t rank) {
          const Rank& this_rank = *ranks_[rank];
          this_rank.use();
          std::mt19937 random(static_cast<uint32_t>(rows * 100 + round * 4) +
                              static_cast<uint32_t>(rank));
          for (int replay = 0; replay < 20; ++replay) {
            EXPECT_TRUE(chains[rank][random() % 4].launch(this_rank.stream()).ok());
            if (random() % 8 == 0) {
              std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
            }
          }
          const Status done = this_rank.stream().synchronize();
          EXPECT_TRUE(done.ok()) << done.message();
        });
        ASSERT_OK(group->check());
        for (const auto& rank : ranks_) {
          ASSERT_TRUE(rank->result(rows) == wanted)
              << rows << " rows, round " << round << (on_host ? ", mailboxes on the host" : "");
        }
      }
    }
  }
}

TEST_P(SeveralGpus, EndTheirWaitingForARankThatNeverComes) {
  Result<PeerGroup> group = PeerGroup::create(gpus_, options(50));
  ASSERT_TRUE(group.ok()) << group.status().message();
  std::vector<Graph> chains;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    chains.push_back(ranks_[rank]->chain(8, group->rank(static_cast<int>(rank))));
  }
  const auto run = [&](size_t rank) {
    ranks_[rank]->use();
    EXPECT_TRUE(chains[rank].launch(ranks_[rank]->stream()).ok());
    EXPECT_TRUE(ranks_[rank]->stream().synchronize().ok());
  };
  const auto set = [&] {
    for (const auto& rank : ranks_) rank->set_x(start_rows(8));
  };
  set();
  on_all([&](size_t rank) {
    if (rank > 0) run(rank);
  });
  const Status failed = group->check();
  EXPECT_EQ(failed.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(failed.message().find("for rank 0 (cuda:0)"), std::string::npos) << failed.message();
  ASSERT_OK(group->reset());
  const Bits wanted = expected(8);
  set();
  on_all(run);
  ASSERT_OK(group->check());
  for (const auto& rank : ranks_) EXPECT_TRUE(rank->result(8) == wanted);
}

INSTANTIATE_TEST_SUITE_P(Groups, SeveralGpus,
                         ::testing::Values(Group{2, false}, Group{2, true}, Group{3, false},
                                           Group{3, true}, Group{4, false}, Group{4, true}),
                         [](const auto& group) {
                           return "Of" + std::to_string(group.param.gpus) +
                                  (group.param.two_shot ? "InTwoShots" : "InOneShot");
                         });

}  // namespace
}  // namespace forerun::cuda
