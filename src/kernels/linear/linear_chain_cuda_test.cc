// Layers in a row, each of which may begin before the one in front of it has ended.
// Runs on a GPU of compute capability 9.0; skips itself elsewhere.
#include <gtest/gtest.h>

#include <vector>

#include "base/status_macros.h"
#include "kernels/linear/linear_rig_cuda_test.h"

namespace forerun::cuda {
namespace {

// A chain in a graph, every layer reading what the one before wrote, must equal the same chain run
// with a synchronization after each launch: a layer that reads before its predecessor has finished
// would differ.
TEST_P(LinearCuda, DependentChainInAGraphKeepsItsOrder) {
  constexpr int64_t kWidth = 2048;
  constexpr int kLayers = 24;
  const SourceTensor source(GetParam(), kWidth, kWidth, 81);
  const Result<LinearPlan> plan = plan_linear(GetParam(), kWidth, kWidth);
  ASSERT_TRUE(plan.ok());
  LinearWeightCuda weight = allocate(*plan);
  ASSERT_OK(source.pack(weight, OutputPlacement::kPlain, 0, stream_->get()));
  const DeviceBuffer halves = to_device(std::vector<float>(kWidth, 0.5f));
  for (const int rows : {1, 3, 8, 32, 65, 128}) {
    const auto count = static_cast<size_t>(rows * kWidth);
    const DeviceBuffer plain = to_device(std::vector<uint16_t>(count));
    const DeviceBuffer squares = to_device(std::vector<float>(count / kNormGroup));
    const std::vector<uint16_t> start = random_inputs(GetParam(), count, 0.5f, 6);
    std::vector<std::vector<uint16_t>> results;
    for (const bool graph : {false, true}) {
      DeviceBuffer x[2] = {to_device(start), to_device(start)};
      const auto layer = [&](int index, bool dependent) {
        LinearCall call = call_for(x[index % 2], kWidth, rows);
        call.output = plain.as<uint16_t>();
        call.output_stride = kWidth;
        call.next_norm = {halves.as<float>(), x[(index + 1) % 2].as<uint16_t>(),
                          squares.as<float>(), linear_input_format(GetParam())};
        call.dependent = dependent;
        call.over_half_smem = index % 2 != 0;
        call.scratch = scratch();
        return linear_cuda(weight, call, stream_->get());
      };
      if (graph) {
        Result<Graph> captured = Graph::capture(*stream_, [&] {
          for (int i = 0; i < kLayers; ++i) FORERUN_RETURN_IF_ERROR(layer(i, true));
          return Status();
        });
        ASSERT_TRUE(captured.ok()) << captured.status().message();
        for (int repeat = 0; repeat < 20; ++repeat) {
          ASSERT_OK(x[0].upload(std::as_bytes(std::span(start))));
          ASSERT_OK(captured->launch(*stream_));
          ASSERT_OK(stream_->synchronize());
          results.push_back(to_host<uint16_t>(x[0], start.size()));
        }
      } else {
        for (int i = 0; i < kLayers; ++i) {
          ASSERT_OK(layer(i, false));
          ASSERT_OK(stream_->synchronize());
        }
        results.push_back(to_host<uint16_t>(x[0], start.size()));
      }
    }
    EXPECT_NE(results[0], start);
    for (const std::vector<uint16_t>& result : results) EXPECT_EQ(result, results[0]);
  }
}

}  // namespace
}  // namespace forerun::cuda
