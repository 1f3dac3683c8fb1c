#include "sampling/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

namespace forerun {
namespace {

TEST(ValidateSamplingParams, AcceptsDefaultsAndExtremes) {
  EXPECT_TRUE(validate_sampling_params({}, 100).ok());
  SamplingParams params;
  params.temperature = 0.0f;
  params.top_p = 1e-6f;
  params.min_p = 1.0f;
  params.top_k = 1000000;
  params.logprobs = 100;
  params.logit_bias = {{0, -100.0f}, {99, 100.0f}};
  params.repetition_penalty = 0.01f;
  EXPECT_TRUE(validate_sampling_params(params, 100).ok());
  params.repetition_penalty = 100.0f;
  params.top_p = 0.0f;
  params.top_k = -1;
  params.presence_penalty = params.frequency_penalty = -2.0f;
  EXPECT_TRUE(validate_sampling_params(params, 100).ok());
}

TEST(ValidateSamplingParams, NamesTheParameterWhatItFoundAndWhatItAccepts) {
  struct Case {
    const char* name;
    const char* found;
    const char* accepted;
    std::function<void(SamplingParams&)> set;
  };
  const Case cases[] = {
      {"temperature", "-0.5", "0 to 100", [](SamplingParams& p) { p.temperature = -0.5f; }},
      {"temperature", "nan", "0 to 100", [](SamplingParams& p) { p.temperature = NAN; }},
      {"temperature", "inf", "0 to 100", [](SamplingParams& p) { p.temperature = INFINITY; }},
      {"temperature", "101", "0 to 100", [](SamplingParams& p) { p.temperature = 101.0f; }},
      {"top_k", "-2", "-1 or more", [](SamplingParams& p) { p.top_k = -2; }},
      {"top_p", "-0.1", "0 to 1", [](SamplingParams& p) { p.top_p = -0.1f; }},
      {"top_p", "1.5", "0 to 1", [](SamplingParams& p) { p.top_p = 1.5f; }},
      {"top_p", "nan", "0 to 1", [](SamplingParams& p) { p.top_p = NAN; }},
      {"min_p", "-0.1", "0 to 1", [](SamplingParams& p) { p.min_p = -0.1f; }},
      {"min_p", "2", "0 to 1", [](SamplingParams& p) { p.min_p = 2.0f; }},
      {"repetition_penalty", "0", "0.01 to 100",
       [](SamplingParams& p) { p.repetition_penalty = 0.0f; }},
      {"repetition_penalty", "1.00053e-42", "0.01 to 100",
       [](SamplingParams& p) { p.repetition_penalty = 1e-42f; }},
      {"repetition_penalty", "0.009", "0.01 to 100",
       [](SamplingParams& p) { p.repetition_penalty = 0.009f; }},
      {"repetition_penalty", "101", "0.01 to 100",
       [](SamplingParams& p) { p.repetition_penalty = 101.0f; }},
      {"repetition_penalty", "nan", "0.01 to 100",
       [](SamplingParams& p) { p.repetition_penalty = NAN; }},
      {"repetition_penalty", "-1", "0.01 to 100",
       [](SamplingParams& p) { p.repetition_penalty = -1.0f; }},
      {"presence_penalty", "2.5", "-2 to 2", [](SamplingParams& p) { p.presence_penalty = 2.5f; }},
      {"presence_penalty", "nan", "-2 to 2", [](SamplingParams& p) { p.presence_penalty = NAN; }},
      {"frequency_penalty", "inf", "-2 to 2",
       [](SamplingParams& p) { p.frequency_penalty = INFINITY; }},
      {"logit_bias", "token 100", "0 to 99",
       [](SamplingParams& p) {
         p.logit_bias = {{100, 1.0f}};
       }},
      {"logit_bias", "token -1", "0 to 99",
       [](SamplingParams& p) {
         p.logit_bias = {{-1, 1.0f}};
       }},
      {"logit_bias", "nan", "-100 to 100",
       [](SamplingParams& p) {
         p.logit_bias = {{5, NAN}};
       }},
      {"logit_bias", "3e+38", "-100 to 100",
       [](SamplingParams& p) {
         p.logit_bias = {{5, 3e38f}};
       }},
      {"logit_bias", "-101", "-100 to 100",
       [](SamplingParams& p) {
         p.logit_bias = {{5, -101.0f}};
       }},
      {"logit_bias", "token 5 twice", "every token once",
       [](SamplingParams& p) {
         p.logit_bias = {{5, 1.0f}, {7, 1.0f}, {5, 2.0f}};
       }},
      {"logprobs", "-2", "-1 (none) to 100", [](SamplingParams& p) { p.logprobs = -2; }},
      {"logprobs", "101", "-1 (none) to 100", [](SamplingParams& p) { p.logprobs = 101; }},
  };
  for (const Case& test : cases) {
    SamplingParams params;
    test.set(params);
    const Status status = validate_sampling_params(params, 100);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << test.name;
    EXPECT_EQ(status.message().rfind(test.name, 0), 0u) << status.message();
    EXPECT_NE(status.message().find(std::string("found ") + test.found), std::string::npos)
        << status.message();
    EXPECT_TRUE(status.message().ends_with(std::string("; accepted: ") + test.accepted))
        << status.message();
  }
}

}  // namespace
}  // namespace forerun
