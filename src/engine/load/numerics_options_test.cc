#include "engine/load/numerics_options.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "checkpoint/testing.h"
#include "engine/load/opened_model.h"
#include "kernels/linear/linear.h"
#include "model/requantize.h"

namespace forerun {
namespace {

// The names include every format that can be made, for any set of encoders.
TEST(NumericsOptions, WeightsNameEveryFormatThatCanBeMade) {
  for (const WeightFormat format : requantizable_formats()) {
    EngineOptions options;
    options.weights = options.draft_weights = weight_format_name(format);
    const auto numerics = parse_numerics(options);
    ASSERT_TRUE(numerics.ok()) << numerics.status().message();
    EXPECT_EQ(numerics->weights, requantize_to(format));
    EXPECT_EQ(numerics->draft_weights, requantize_to(format));
  }
  EXPECT_EQ(weight_names().size(), requantizable_formats().size() + 2);
  EXPECT_EQ(draft_weight_names().size(), requantizable_formats().size() + 5);
  for (const std::string& name : weight_names()) {
    EngineOptions options;
    options.weights = name;
    EXPECT_TRUE(parse_numerics(options).ok()) << name;
  }
}

TEST(NumericsOptions, ARefusalListsWhatIsAccepted) {
  EngineOptions options;
  const char* const no_encoder = ", a format that kernels read but that has no encoder";
  for (const auto& [found, why] :
       {std::pair("fp8", no_encoder), std::pair("int4_head", ""), std::pair("int4", no_encoder),
        std::pair("bf16_pairs", no_encoder), std::pair("", ""), std::pair("auto", "")}) {
    options.weights = found;
    const auto numerics = parse_numerics(options);
    ASSERT_FALSE(numerics.ok()) << found;
    EXPECT_EQ(numerics.status().message(), "weights: found '" + std::string(found) + "'" + why +
                                               "; accepted: " + list_of(weight_names()));
  }
  EXPECT_EQ(list_of({"a", "b", "c"}), "a, b and c");
  options.weights = "as_stored";
  options.draft_weights = "fp8";
  EXPECT_NE(parse_numerics(options).status().message().find("int8_head, int4_head and int4"),
            std::string::npos);
}

TEST(NumericsOptions, OnlyALargeHeadIsWorthRounding) {
  EXPECT_TRUE(int4_head_pays(2048, 128256));   // Llama-3.2-1B
  EXPECT_TRUE(int4_head_pays(896, 151936));    // Qwen2.5-0.5B
  EXPECT_TRUE(int4_head_pays(2048, 32000));    // TinyLlama-1.1B
  EXPECT_FALSE(int4_head_pays(2048, 8192));    // a pair grown from the demo pair
  EXPECT_FALSE(int4_head_pays(256, 8192));     // the demo target
  EXPECT_FALSE(int4_head_pays(2000, 128256));  // no groups of 128 inputs
}

TEST(NumericsOptions, OfQuantizedDraftsTheLmHeadIsRoundedOnProcessors) {
  for (const bool quantized : {false, true}) {
    ToySpec spec;
    spec.dtype = DType::kBf16;
    if (quantized) spec.quantization = ToySpec::Quantization::kAwq;
    const TempDir dir;
    ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
    auto checkpoint = Checkpoint::open(dir.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    const OpenedModel draft{std::move(*checkpoint), nullptr, {}};
    EXPECT_EQ(choose_draft_weights(draft, ModelPlacement()),
              quantized ? WeightOverride::kInt8Head : WeightOverride::kInt8);
  }
}

}  // namespace
}  // namespace forerun
