// The numbers of a request's sampling, one row each. Everything that reads, writes, checks or lists
// them goes through these rows: JSON bodies, batch files, generation_config.json, flags, the
// commands of a chat, messages between processes. A new number is a row here, a member of
// SamplingParams and of SamplingOptions, and the code that applies it
// (docs/adding-a-request-field.md).
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "forerun/sampling_params.h"

namespace forerun {

template <class T>
struct SamplingField {
  const char* name;  // in JSON and in messages; flags spell _ as -
  T SamplingParams::*param;
  std::optional<T> SamplingOptions::*option;
  double min, max;            // inclusive; the default is the member's of SamplingParams
  const char* help;           // one line, for flags and lists
  char letter = 0;            // the flag's short form; 0: none
  bool in_checkpoint = true;  // generation_config.json may set the default
};

inline constexpr std::tuple kSamplingFields{
    SamplingField<float>{"temperature", &SamplingParams::temperature, &SamplingOptions::temperature,
                         0, 100, "0 is greedy (default: the checkpoint's own, else 0)", 't'},
    SamplingField<int32_t>{"top_k", &SamplingParams::top_k, &SamplingOptions::top_k, -1, INT32_MAX,
                           "Keep the N most likely tokens; 0 and -1 keep all"},
    SamplingField<float>{"top_p", &SamplingParams::top_p, &SamplingOptions::top_p, 0, 1,
                         "Keep the smallest set with this probability"},
    SamplingField<float>{"min_p", &SamplingParams::min_p, &SamplingOptions::min_p, 0, 1,
                         "Drop tokens less likely than this times the best"},
    SamplingField<float>{"repetition_penalty", &SamplingParams::repetition_penalty,
                         &SamplingOptions::repetition_penalty, 0.01, 100,
                         "Against tokens of the prompt and the output, 0.01 to 100; 1 is off"},
    SamplingField<float>{"presence_penalty", &SamplingParams::presence_penalty,
                         &SamplingOptions::presence_penalty, -2, 2,
                         "Taken off the logits of tokens of the output, once; 0 is off", 0, false},
    SamplingField<float>{
        "frequency_penalty", &SamplingParams::frequency_penalty,
        &SamplingOptions::frequency_penalty, -2, 2,
        "Taken off the logits of tokens of the output, for each occurrence; 0 is off", 0, false},
};

// Calls visit(const SamplingField<T>&) for each row, in order.
template <class Visitor>
constexpr void for_each_sampling_field(Visitor&& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, kSamplingFields);
}

// False for what is out of range, and for NaN.
template <class T>
constexpr bool sampling_in_range(const SamplingField<T>& field, T value) {
  return value >= static_cast<T>(field.min) && value <= static_cast<T>(field.max);
}

}  // namespace forerun
