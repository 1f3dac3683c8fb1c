// Tests how a checkpoint's generation_config.json applies to requests without options.
#include <gtest/gtest.h>

#include "engine/load/opened_model.h"

namespace forerun {
namespace {

float temperature_of(std::optional<bool> do_sample, std::optional<double> temperature) {
  GenerationDefaults defaults;
  defaults.do_sample = do_sample;
  if (temperature) defaults.sampling.temperature = *temperature;
  return default_sampling(defaults).temperature;
}

TEST(SamplingDefaults, DoSampleSaysWhetherItIsGreedy) {
  EXPECT_EQ(temperature_of(true, 0.6), 0.6f);
  EXPECT_EQ(temperature_of(true, std::nullopt), 1.0f);
  EXPECT_EQ(temperature_of(false, 0.6), 0.0f);
  EXPECT_EQ(temperature_of(false, std::nullopt), 0.0f);
}

TEST(SamplingDefaults, WithoutItTheTemperatureDoes) {
  EXPECT_EQ(temperature_of(std::nullopt, 0.6), 0.6f);
  EXPECT_EQ(temperature_of(std::nullopt, 0.0), 0.0f);
  EXPECT_EQ(temperature_of(std::nullopt, std::nullopt), 0.0f);
  // Other fields do not turn sampling on.
  GenerationDefaults defaults;
  defaults.sampling.top_p = 0.9;
  defaults.sampling.top_k = 20;
  EXPECT_EQ(default_sampling(defaults).temperature, 0.0f);
  EXPECT_EQ(default_sampling(defaults).top_k, 20);
  defaults.sampling.top_k = -1;
  EXPECT_EQ(default_sampling(defaults).top_k, 0);
}

}  // namespace
}  // namespace forerun
