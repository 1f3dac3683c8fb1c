#include "engine/submit/submission.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "engine/submit/check_request.h"
#include "forerun/sampling_fields.h"

namespace forerun {
namespace {

// Returns number `index` of the SplitMix64 generator (Steele et al., 2014) that starts from `seed`.
uint64_t split_mix(uint64_t seed, uint64_t index) {
  uint64_t mixed = seed + index * 0x9E3779B97F4A7C15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

// Sets the tokens that must not be sampled before min_new_tokens: those that end the request.
Status hold_ends_back(const Request& request, const EngineInfo& info, int32_t vocab,
                      SamplingParams& sampling) {
  if (request.min_new_tokens == 0) return {};
  sampling.min_tokens = request.min_new_tokens;
  std::vector<int32_t>& ends = sampling.end_tokens;
  ends = request.stop_tokens;
  if (!request.ignore_eos) {
    ends.insert(ends.end(), info.eos_token_ids.begin(), info.eos_token_ids.end());
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::erase_if(ends, [&](int32_t token) { return token < 0 || token >= vocab; });
  if (static_cast<int32_t>(ends.size()) < vocab) return {};
  return Status(StatusCode::kInvalidArgument, "min_tokens: found " +
                                                  std::to_string(request.min_new_tokens) +
                                                  ", but every token is a stop token; accepted: 0");
}

}  // namespace

uint64_t sample_seed(uint64_t seed, int32_t sample_idx) {
  return sample_idx == 0 ? seed : split_mix(seed, static_cast<uint64_t>(sample_idx));
}

SeedSource::SeedSource() {
  uint64_t state = 0;
  if (getentropy(&state, sizeof(state)) != 0) {
    state = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  state_ = state;
}

uint64_t SeedSource::next() { return split_mix(state_.fetch_add(0x9E3779B97F4A7C15u), 1) >> 11; }

SamplingParams resolve_sampling(const SamplingOptions& wanted, const SamplingParams& defaults,
                                uint64_t seed_if_unset) {
  SamplingParams params;
  for_each_sampling_field([&](const auto& field) {
    params.*field.param = (wanted.*field.option).value_or(defaults.*field.param);
  });
  params.logit_bias = wanted.logit_bias;
  params.seed = wanted.seed.value_or(seed_if_unset);
  params.logprobs = wanted.logprobs;
  params.prompt_logprobs = wanted.prompt_logprobs;
  return params;
}

Result<std::vector<std::unique_ptr<ActiveRequest>>> make_samples(
    const OpenedModel& target, const EngineInfo& info, int32_t max_logprobs, SeedSource& seeds,
    OutputFormats* formats, std::shared_ptr<const SpeculationPlan> plan, Request request) {
  SamplingParams sampling = resolve_sampling(request.sampling, info.default_sampling, seeds.next());
  FORERUN_RETURN_IF_ERROR(check_sampling(sampling, target.live_vocab(), max_logprobs));
  FORERUN_RETURN_IF_ERROR(check_request(target, info.max_context_tokens, request));
  std::shared_ptr<const TokenConstraint> constraint;
  if (request.output_format.kind != OutputFormat::Kind::kAny) {
    if (formats == nullptr) {
      return Status(
          StatusCode::kUnsupported,
          "output_format: not supported where the target's stages are in other processes");
    }
    FORERUN_ASSIGN_OR_RETURN(constraint, formats->constraint(request.output_format));
  }
  FORERUN_RETURN_IF_ERROR(hold_ends_back(request, info, target.live_vocab(), sampling));
  const uint64_t seed = sampling.seed;
  std::vector<std::unique_ptr<ActiveRequest>> samples;
  for (int32_t idx = 0; idx < request.num_samples; ++idx) {
    sampling.seed = sample_seed(seed, idx);
    // Each sample gets its own constraint, and so its own mask budget.
    if (idx > 0 && constraint != nullptr) {
      FORERUN_ASSIGN_OR_RETURN(constraint, formats->constraint(request.output_format));
    }
    samples.push_back(std::make_unique<ActiveRequest>(request, sampling, constraint, plan,
                                                      target.tokenizer(), info.eos_token_ids));
    FORERUN_RETURN_IF_ERROR(samples.back()->resume());
  }
  return samples;
}

}  // namespace forerun
