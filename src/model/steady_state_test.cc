// Checks that a forward pass that has run once allocates nothing when it runs again.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "checkpoint/testing.h"
#include "model/testing.h"

namespace {
std::atomic<int64_t> allocations{0};
}

[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace forerun {
namespace {

class SteadyState : public testing::TestWithParam<std::vector<int32_t>> {};

TEST_P(SteadyState, ForwardAllocatesNothing) {
  for (const Activation activation : {Activation::kF32, Activation::kBf16, Activation::kInt8}) {
    const TempDir dir;
    ToySpec spec;
    spec.quantization = ToySpec::Quantization::kAwq;
    spec.num_kv_heads = 1;  // with three members, spans are split
    ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
    CpuDecoderOptions options;
    options.activation = activation;
    options.kv_blocks = 8;
    auto loaded = LoadedDecoder::open(dir.path(), GetParam(), options);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    Decoder& decoder = *loaded->decoder;
    SequenceDriver sequence(&decoder, SequenceDriver::blocks_for(512));
    const std::vector<int32_t> tokens(300, 5);
    std::vector<Step> steps;
    for (const int32_t rows : {1, 8, 40, 300}) {
      Step step;
      step.sequences.push_back(sequence.sequence());
      SequenceDriver::add_prefix_rows(
          step, 0, std::span<const int32_t>(tokens).subspan(static_cast<size_t>(300 - rows)),
          300 - rows, rows < 300);
      steps.push_back(step);
    }
    for (const Step& step : steps) ASSERT_TRUE(decoder.forward(step).ok());
    const int64_t before = allocations.load();
    bool ok = true;
    for (const Step& step : steps) ok = decoder.forward(step).ok() && ok;
    const int64_t after = allocations.load();
    EXPECT_TRUE(ok);
    EXPECT_EQ(after - before, 0) << activation_name(activation);
  }
  EXPECT_GT(allocations.load(), 0);  // the counter counts
}

// Threads of the devices.
INSTANTIATE_TEST_SUITE_P(Devices, SteadyState,
                         testing::Values(std::vector<int32_t>{3}, std::vector<int32_t>{2, 1}));

}  // namespace
}  // namespace forerun
