// The numeric sampling fields of a request, one row each. All code that reads, writes, checks or
// lists them uses these rows: JSON bodies, batch files, generation_config.json, flags, the commands
// of a chat, messages between processes. A new field needs a row here, a member of SamplingParams
// and of SamplingOptions, and the code that applies it (docs/adding-a-request-field.md).
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "forerun/sampling_params.h"

namespace forerun {

template <class T>
struct SamplingField {
  const char* name;       // in JSON and in messages; flags replace _ by -
  const char* gguf_name;  // in the metadata of a GGUF file, after "general.sampling."
  T SamplingParams::*param;
  std::optional<T> SamplingOptions::*option;
  double min, max;                   // inclusive; SamplingParams has the default
  const char* help;                  // one line, for flags and lists
  char letter = 0;                   // the flag's short form; 0: none
  bool in_generation_config = true;  // generation_config.json may set the default
  bool is_penalty = false;           // depends on earlier tokens; off at its default
};

inline constexpr std::tuple kSamplingFields{
    SamplingField<float>{.name = "temperature",
                         .gguf_name = "temp",
                         .param = &SamplingParams::temperature,
                         .option = &SamplingOptions::temperature,
                         .min = 0,
                         .max = 100,
                         .help = "0 is greedy (default: the checkpoint's own, else 0)",
                         .letter = 't'},
    SamplingField<int32_t>{.name = "top_k",
                           .gguf_name = "top_k",
                           .param = &SamplingParams::top_k,
                           .option = &SamplingOptions::top_k,
                           .min = -1,
                           .max = INT32_MAX,
                           .help = "Keep the N most likely tokens; 0 and -1 keep all"},
    SamplingField<float>{.name = "top_p",
                         .gguf_name = "top_p",
                         .param = &SamplingParams::top_p,
                         .option = &SamplingOptions::top_p,
                         .min = 0,
                         .max = 1,
                         .help = "Keep the smallest set with this probability"},
    SamplingField<float>{.name = "min_p",
                         .gguf_name = "min_p",
                         .param = &SamplingParams::min_p,
                         .option = &SamplingOptions::min_p,
                         .min = 0,
                         .max = 1,
                         .help = "Drop tokens less likely than this times the best"},
    SamplingField<float>{
        .name = "repetition_penalty",
        .gguf_name = "penalty_repeat",
        .param = &SamplingParams::repetition_penalty,
        .option = &SamplingOptions::repetition_penalty,
        .min = 0.01,
        .max = 100,
        .help = "Against tokens of the prompt and the output, 0.01 to 100; 1 is off",
        .is_penalty = true},
    SamplingField<float>{.name = "presence_penalty",
                         .gguf_name = "penalty_present",
                         .param = &SamplingParams::presence_penalty,
                         .option = &SamplingOptions::presence_penalty,
                         .min = -2,
                         .max = 2,
                         .help = "Taken off the logits of tokens of the output, once; 0 is off",
                         .in_generation_config = false,
                         .is_penalty = true},
    SamplingField<float>{
        .name = "frequency_penalty",
        .gguf_name = "penalty_freq",
        .param = &SamplingParams::frequency_penalty,
        .option = &SamplingOptions::frequency_penalty,
        .min = -2,
        .max = 2,
        .help = "Taken off the logits of tokens of the output, for each occurrence; 0 is off",
        .in_generation_config = false,
        .is_penalty = true},
};

// Calls visit(const SamplingField<T>&) for each row, in order.
template <class Visitor>
constexpr void for_each_sampling_field(Visitor&& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, kSamplingFields);
}

// Returns false if the value is out of range or NaN.
template <class T>
constexpr bool sampling_in_range(const SamplingField<T>& field, T value) {
  return value >= static_cast<T>(field.min) && value <= static_cast<T>(field.max);
}

}  // namespace forerun
