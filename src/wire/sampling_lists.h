// The lists of fields of sampling parameters in messages: the rows of kSamplingFields, and the
// other fields by name.
#pragma once

#include "forerun/sampling_fields.h"
#include "forerun/sampling_params.h"
#include "wire/bytes.h"

namespace forerun {

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<SamplingOptions> auto& sampling) {
  for_each_sampling_field([&](const auto& field) { visit(field.name, sampling.*field.option); });
  visit("logit_bias", sampling.logit_bias);
  visit("seed", sampling.seed);
  visit("logprobs", sampling.logprobs);
  visit("prompt_logprobs", sampling.prompt_logprobs);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<SamplingParams> auto& sampling) {
  for_each_sampling_field([&](const auto& field) { visit(field.name, sampling.*field.param); });
  visit("logit_bias", sampling.logit_bias);
  visit("seed", sampling.seed);
  visit("logprobs", sampling.logprobs);
  visit("prompt_logprobs", sampling.prompt_logprobs);
  visit("min_tokens", sampling.min_tokens);
  visit("end_tokens", sampling.end_tokens);
}

}  // namespace forerun
