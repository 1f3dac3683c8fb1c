#include "model/cuda/layer_chain.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/cuda/cuda_devices.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/cuda_testing.h"

namespace forerun::cuda {
namespace {

// Each letter stands for a kernel.
std::vector<std::string> kernels(const std::string& letters) {
  std::vector<std::string> out;
  for (const char letter : letters) out.emplace_back(1, letter);
  return out;
}

void expect_repetition(const std::string& letters, size_t times, size_t first, size_t period) {
  const auto found = find_repetition(kernels(letters), times);
  ASSERT_TRUE(found) << letters;
  EXPECT_EQ(found->first, first) << letters;
  EXPECT_EQ(found->period, period) << letters;
}

TEST(LayerChain, FindsLayersBetweenEmbeddingAndHead) {
  expect_repetition("eqaogdqaogdqaogdnh", 3, 1, 5);
  expect_repetition("qaogd", 1, 0, 5);
  // The last norm equals a layer's first kernel, yet the layers begin with theirs.
  expect_repetition("enqaoggnqaoggnh", 2, 1, 6);
  // A layer may contain the same kernel several times.
  expect_repetition("elallllallllallll", 3, 1, 5);
}

TEST(LayerChain, FindsNothingWhereNothingRepeatsOftenEnough) {
  EXPECT_FALSE(find_repetition(kernels("eqaqah"), 3));
  EXPECT_FALSE(find_repetition(kernels("ab"), 3));
  EXPECT_FALSE(find_repetition(kernels(""), 1));
  EXPECT_FALSE(find_repetition(kernels("ab"), 0));
}

// Captures a chain of eight writes, which begins with three layers of two parts.
TEST(LayerChain, AGraphWithoutAPartRunsAllTheOthers) {
  const auto devices = list_devices();
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  if (devices->empty()) GTEST_SKIP() << "no GPU";
  const Result<Stream> stream = Stream::create();
  ASSERT_TRUE(stream.ok()) << stream.status().message();
  const auto bytes_without = [&](int32_t part) {
    const DeviceBuffer bytes = to_device(std::vector<uint8_t>(8, 0));
    const auto write_all = [&]() -> Status {
      for (int i = 0; i < 8; ++i) {
        if (cudaMemsetAsync(bytes.data() + i, i + 1, 1, stream->get()) != cudaSuccess) {
          return {StatusCode::kInternal, "cudaMemsetAsync"};
        }
      }
      return {};
    };
    const Result<Graph> graph = Graph::capture(*stream, write_all, [&](cudaGraph_t chain) {
      const auto parts = layer_parts(chain, 3);
      EXPECT_TRUE(parts.ok() && parts->size() == 2);
      return leave_out_part(chain, 3, part);
    });
    EXPECT_EQ(graph.ok(), part < 2);
    if (graph.ok()) {
      EXPECT_TRUE(graph->launch(*stream).ok());
      EXPECT_TRUE(stream->synchronize().ok());
    }
    return to_host<uint8_t>(bytes, 8);
  };
  EXPECT_EQ(bytes_without(0), (std::vector<uint8_t>{0, 2, 0, 4, 0, 6, 7, 8}));
  EXPECT_EQ(bytes_without(1), (std::vector<uint8_t>{1, 0, 3, 0, 5, 0, 7, 8}));
  EXPECT_EQ(bytes_without(2), std::vector<uint8_t>(8, 0)) << "no such part: no graph";
}

}  // namespace
}  // namespace forerun::cuda
