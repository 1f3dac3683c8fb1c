// Checks the order of nibbles in AWQ words, and that the toy writer's variants have the same
// values.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/layouts/weight_parts.h"
#include "checkpoint/testing.h"

namespace forerun {
namespace {

template <class T>
T element(const RawTensor& tensor, int64_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

TEST(AwqOrder, HandMadeWord) {
  // Columns 0..7 hold 0..7, so nibbles 0..7 hold 0 2 4 6 1 3 5 7.
  constexpr uint32_t kWord = 0x75316420u;
  for (uint32_t column = 0; column < 8; ++column) {
    EXPECT_EQ((kWord >> (4 * kAwqNibbleOfColumn[column])) & 15u, column);
    EXPECT_EQ(kAwqColumnOfNibble[kAwqNibbleOfColumn[column]], static_cast<int>(column));
  }
}

ToySpec awq_spec(ToySpec::Quantization quantization) {
  ToySpec spec;
  spec.hidden_size = 32;
  spec.intermediate_size = 64;
  spec.num_heads = 2;
  spec.num_kv_heads = 1;
  spec.vocab_size = 32;
  spec.num_layers = 1;
  spec.awq_group_size = 16;
  spec.quantization = quantization;
  return spec;
}

TEST(ToyCheckpoint, DequantizedTwinHoldsTheSameValues) {
  TempDir packed_dir, twin_dir;
  for (const int32_t group_size : {16, -1}) {
    ToySpec packed_spec = awq_spec(ToySpec::Quantization::kAwq);
    ToySpec twin_spec = awq_spec(ToySpec::Quantization::kAwqDequantized);
    packed_spec.awq_group_size = twin_spec.awq_group_size = group_size;
    ASSERT_TRUE(write_toy_checkpoint(packed_dir.path(), packed_spec).ok());
    ASSERT_TRUE(write_toy_checkpoint(twin_dir.path(), twin_spec).ok());
    const auto packed = Checkpoint::open(packed_dir.path());
    const auto twin = Checkpoint::open(twin_dir.path());
    ASSERT_TRUE(packed.ok() && twin.ok());
    const ModuleId module{ModuleKind::kDown, 0};
    const RawTensor& weight_in_parts = *packed->weight(module);
    ASSERT_NE(weight_in_parts.parts, nullptr);
    const auto parts = weight_in_parts.parts->awq_gemm();
    ASSERT_TRUE(parts.has_value());
    EXPECT_EQ(parts->in_features, 64);
    EXPECT_EQ(parts->out_features, 32);
    EXPECT_EQ(parts->group_size, group_size == -1 ? 64 : group_size);
    const RawTensor& weight = *twin->weight(module);
    double squares = 0;
    for (int64_t in = 0; in < 64; ++in) {
      for (int64_t out = 0; out < 32; ++out) {
        const int shift = 4 * kAwqNibbleOfColumn[out % 8];
        const int64_t group = in / parts->group_size;
        const auto quantized =
            static_cast<int>((element<uint32_t>(*parts->qweight, in * 4 + out / 8) >> shift) & 15u);
        const auto zero = static_cast<int>(
            (element<uint32_t>(*parts->qzeros, group * 4 + out / 8) >> shift) & 15u);
        const float scale = to_float(f16{element<uint16_t>(*parts->scales, group * 32 + out)});
        const float value = static_cast<float>(quantized - zero) * scale;
        ASSERT_EQ(value, element<float>(weight, out * 64 + in)) << in << " " << out;
        squares += static_cast<double>(value) * static_cast<double>(value);
      }
    }
    // Weights must have a realistic size: their mean square is about 1 / inputs.
    EXPECT_NEAR(squares / 32, 1.1, 0.5);
  }
}

TEST(ToyCheckpoint, IsAPureFunctionOfItsSpec) {
  const ToySpec spec = awq_spec(ToySpec::Quantization::kAwq);
  const auto first = toy_tensors(spec), second = toy_tensors(spec);
  ToySpec reseeded = spec;
  reseeded.seed = 9;
  const auto other = toy_tensors(reseeded);
  ASSERT_EQ(first.size(), second.size());
  for (size_t index = 0; index < first.size(); ++index) {
    EXPECT_EQ(first[index].bytes, second[index].bytes);
    EXPECT_NE(first[index].bytes, other[index].bytes) << first[index].name;
  }
}

TEST(ToyCheckpoint, PerturbationStaysNearTheOriginal) {
  ToySpec spec = awq_spec(ToySpec::Quantization::kNone);
  const auto original = toy_tensors(spec);
  spec.perturbation = 0.1f;
  const auto perturbed = toy_tensors(spec);
  for (size_t index = 0; index < original.size(); ++index) {
    const size_t count = original[index].bytes.size() / sizeof(float);
    double difference = 0, norm = 0;
    for (size_t element_idx = 0; element_idx < count; ++element_idx) {
      float left, right;
      std::memcpy(&left, original[index].bytes.data() + element_idx * sizeof(float), sizeof(float));
      std::memcpy(&right, perturbed[index].bytes.data() + element_idx * sizeof(float),
                  sizeof(float));
      difference += static_cast<double>(left - right) * static_cast<double>(left - right);
      norm += static_cast<double>(left) * static_cast<double>(left);
    }
    EXPECT_GT(difference, 0.0);
    EXPECT_LT(difference, 0.05 * norm) << original[index].name;
  }
}

}  // namespace
}  // namespace forerun
