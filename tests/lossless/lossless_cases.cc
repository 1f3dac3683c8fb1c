#include "lossless/lossless_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include "checkpoint/layouts/toy_layouts.h"
#include "engine/load/gpu.h"
#include "strategies/every_policy.h"
#include "support/create_engine_rig.h"

namespace forerun::testing {

namespace {

// Empty where processors are tested.
std::string devices_asked_for(const char* variable) {
  const char* devices = std::getenv(variable);
  return devices == nullptr ? "" : devices;
}

ToySpec toy() {
  ToySpec spec;
  spec.logit_std = 3.0f;
  spec.max_position = 256;
  return spec;
}

bool draft_on_gpu() { return devices_asked_for("FORERUN_TEST_DRAFT_DEVICES").starts_with("cuda"); }

// Leaves all tests out where a GPU that they were told to run on is not there.
class NamedGpus : public ::testing::Environment {
 public:
  void SetUp() override {
    for (const char* variable : {"FORERUN_TEST_DEVICES", "FORERUN_TEST_DRAFT_DEVICES"}) {
      std::string named = devices_asked_for(variable);
      std::replace(named.begin(), named.end(), '/', ',');  // stages
      std::istringstream devices(named);
      for (std::string device; std::getline(devices, device, ',');) {
        if (!device.starts_with("cuda:")) continue;
        const auto memory = gpu_memory(std::atoi(device.c_str() + 5));
        if (memory.ok()) continue;
        ASSERT_EQ(memory.status().code(), StatusCode::kNotFound) << memory.status().message();
        GTEST_SKIP() << "no GPU " << device << ": " << memory.status().message();
      }
    }
  }
};
const ::testing::Environment* const kNamedGpus = ::testing::AddGlobalTestEnvironment(new NamedGpus);

}  // namespace

bool on_gpu() { return devices_asked_for("FORERUN_TEST_DEVICES").starts_with("cuda"); }

std::vector<Precision> precisions() {
  std::vector<Precision> all;
  ToySpec bf16 = toy();
  bf16.dtype = DType::kBf16;
  all.push_back({.name = "bf16", .spec = bf16});
  ToySpec f32 = toy();
  f32.family = "qwen3";
  all.push_back({.name = "f32", .spec = f32, .activations = "f32"});
  ToySpec f16 = toy();
  f16.dtype = DType::kF16;
  f16.family = "qwen2";
  all.push_back({.name = "f16", .spec = f16});
  all.push_back({.name = "int8", .spec = toy(), .weights = "int8"});
  all.push_back({.name = "int8_head", .spec = bf16, .weights = "int8_head"});
  ToySpec int4 = bf16;
  int4.quantization = ToySpec::Quantization::kAwq;
  all.push_back({.name = "int4", .spec = int4});
  ToySpec window = int4;
  window.family = "mistral";
  window.sliding_window = 24;
  all.push_back({.name = "int4_int8_activations_window", .spec = window, .activations = "int8"});
  // Every format of GGUF files, each in one of the matrices.
  ToySpec gguf = toy();
  gguf.hidden_size = 256;
  gguf.intermediate_size = 512;
  gguf.vocab_size = 257;
  for (const BlockFormatInfo& blocks : block_formats()) gguf.gguf_formats.push_back(blocks.format);
  all.push_back({.name = "gguf", .spec = gguf});
  all.push_back({.name = "gguf_int8_activations", .spec = gguf, .activations = "int8"});
  if (!on_gpu()) return all;
  // GPUs have bf16 activations, and kernels of their own for int4 of group 128.
  std::erase_if(all, [](const Precision& precision) {
    return precision.activations != "bf16" || precision.weights == "int8";
  });
  ToySpec int4_group128 = int4;
  int4_group128.hidden_size = 256;
  int4_group128.intermediate_size = 512;  // a group for each of up to four GPUs
  int4_group128.awq_group_size = 128;
  all.push_back({.name = "int4_group128", .spec = int4_group128});
  // What GPUs read as it is stored, a format at a time.
  for (const BlockFormatInfo& blocks : block_formats()) {
    gguf.gguf_formats = {blocks.format};
    all.push_back({.name = std::string(blocks.name), .spec = gguf});
  }
  // As Q4_K_M files, with the embedding as the head: V and down of the first layer are in another
  // format than what is beside them, in the second Q.
  using enum BlockFormat;
  gguf.gguf_formats = {kQ6_K, kQ4_K, kQ4_K, kQ6_K, kQ4_K, kQ4_K, kQ4_K, kQ6_K};
  gguf.tied = true;
  all.push_back({.name = "q4_k_m", .spec = gguf});
  ToySpec fp8 = int4_group128;
  fp8.quantization = ToySpec::Quantization::kNone;
  for (const char* layout :
       {"float_channel", "fp8_block", "gptq", "gptq_middle_zeros", "packed_8", "gemm_channel"}) {
    fp8.layout = &toy_layout(layout);
    all.push_back({.name = layout, .spec = fp8});
  }
  all.push_back({.name = "window", .spec = window});
  return all;
}

std::unique_ptr<Engine> make_engine(const std::string& target, const std::string& draft,
                                    const Precision& precision, const std::string& devices,
                                    const std::string& draft_devices, EngineOptions options) {
  options.model = target;
  options.draft = draft;
  options.weights = precision.weights;
  options.activations = precision.activations;
  options.devices = devices;
  options.draft_devices = draft_devices;
  const std::string target_asked_for = devices_asked_for("FORERUN_TEST_DEVICES");
  const std::string draft_asked_for = devices_asked_for("FORERUN_TEST_DRAFT_DEVICES");
  if (!target_asked_for.empty()) options.devices = target_asked_for;
  if (!draft_devices.empty() && !draft_asked_for.empty()) options.draft_devices = draft_asked_for;
  const bool takes_int4 = precision.spec.hidden_size % 128 == 0;
  if (!draft_devices.empty() && draft_on_gpu() && takes_int4) options.draft_weights = "int4_head";
  return create_engine(options);
}

Request request_of(uint64_t seed, bool sampled) {
  Request request;
  // Some repetition, so that n-grams find something.
  const std::vector<std::string> prompts = {"abcabcabcab", "to be or not to be, to be", "x",
                                            "0101100101101 0101"};
  request.prompt = prompts[seed % prompts.size()];
  request.max_new_tokens = 40;
  request.ignore_eos = true;
  request.sampling.seed = seed;
  request.sampling.temperature = sampled ? 0.8f : 0.0f;
  if (seed % 4 == 2) {  // it ends where that is allowed
    request.ignore_eos = false;
    request.output_format = {OutputFormat::Kind::kGrammar,
                             R"(root ::= ([a-p] | [q-z] [0-9] | " " [^ ])+)"};
  }
  if (seed % 8 == 0 && sampled) {  // it may end at most tokens, but not at once
    request.ignore_eos = false;
    for (int32_t token = 1; token < 256; token += 3) request.stop_tokens.push_back(token);
    request.min_new_tokens = 25;
  }
  if (!sampled) return request;
  // Every processor takes part in some seed.
  if (seed % 2 == 1) request.sampling.top_p = 0.9f;
  if (seed % 3 == 1) request.sampling.top_k = 12;
  if (seed % 4 == 1) request.sampling.min_p = 0.02f;
  if (seed % 5 == 1) request.sampling.repetition_penalty = 1.2f;
  if (seed % 5 == 2) request.sampling.presence_penalty = 0.5f;
  if (seed % 5 == 3) request.sampling.frequency_penalty = 0.4f;
  if (seed % 6 == 1) request.sampling.logit_bias = {{97, 2.0f}, {98, -100.0f}};
  if (seed % 7 == 1) request.sampling.logprobs = 2;
  return request;
}

void set_length(Request& request, int32_t max_new_tokens) {
  request.max_new_tokens = max_new_tokens;
  request.min_new_tokens = std::min(request.min_new_tokens, max_new_tokens / 2);
}

std::string describe(const Request& request) {
  return policy_name(*request.speculation) + " seed " + std::to_string(*request.sampling.seed) +
         " temperature " + std::to_string(*request.sampling.temperature);
}

// All requests at once: they share Steps.
std::vector<Output> complete_together(Engine& engine, const std::vector<Request>& requests) {
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (const Request& request : requests) {
    auto stream = engine.submit(request);
    if (!stream.ok()) {
      ADD_FAILURE() << stream.status().message();
      continue;
    }
    streams.push_back(*stream);
  }
  std::vector<Output> outputs;
  for (const auto& stream : streams) outputs.push_back(drain(*stream));
  return outputs;
}

void expect_same(const Output& plain, const Output& output, const std::string& what) {
  EXPECT_TRUE(output.error.ok()) << what << ": " << output.error.message();
  EXPECT_EQ(plain.tokens, output.tokens) << what;
  EXPECT_EQ(plain.text, output.text) << what;
  EXPECT_EQ(plain.reason, output.reason) << what;
  ASSERT_EQ(plain.logprobs.size(), output.logprobs.size()) << what;
  for (size_t idx = 0; idx < plain.logprobs.size(); ++idx) {
    ASSERT_EQ(plain.logprobs[idx].size(), output.logprobs[idx].size()) << what;
    for (size_t entry = 0; entry < plain.logprobs[idx].size(); ++entry) {
      EXPECT_EQ(plain.logprobs[idx][entry].token, output.logprobs[idx][entry].token) << what;
      EXPECT_EQ(plain.logprobs[idx][entry].logprob, output.logprobs[idx][entry].logprob) << what;
    }
  }
}

std::vector<Request> by_every_policy(Request request, const Precision& precision,
                                     const std::string& strategy) {
  const bool greedy = request.sampling.temperature == 0.0f;
  const bool has_window = precision.spec.sliding_window > 0;
  const bool quantizes_keys = !on_gpu();
  const bool head = precision.draft_is_head;
  const ModelFacts models{.draft_is_head = head,
                          .has_window = {has_window, has_window},
                          .selects_kv = {true, !head},
                          .quantizes_keys = {quantizes_keys, quantizes_keys && !head}};
  const PolicySettings settings{.shared_noise = *request.sampling.seed % 2 == 0};
  std::vector<SpeculationOptions> policies =
      greedy ? every_policy(models, settings) : every_exact_policy(models, settings);
  if (!strategy.empty()) policies = policies_of(strategy, std::move(policies));
  std::vector<Request> requests;
  for (const SpeculationOptions& policy : policies) {
    request.speculation = policy;
    requests.push_back(request);
  }
  return requests;
}

std::vector<Request> slice(const std::vector<Request>& requests, size_t step, size_t turn) {
  std::vector<Request> sliced;
  for (size_t idx = turn % step; idx < requests.size(); idx += step)
    sliced.push_back(requests[idx]);
  return sliced;
}

std::vector<Request> part_of(const std::vector<Request>& requests, size_t turn) {
  return slice(requests, test_part(), turn);
}

bool runs(size_t turn) { return turn % test_part() == 0; }

int64_t in_part(int64_t least) {
  const auto part = static_cast<int64_t>(test_part());
  return part == 1 ? least : least / (4 * part);
}

}  // namespace forerun::testing
