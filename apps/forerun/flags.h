// Flags that several subcommands share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli11_names.h"
#include "forerun/engine.h"

namespace forerun::app {

struct SamplingFlags {
  SamplingOptions options;              // the numbers that were given
  std::vector<std::string> logit_bias;  // "TOKEN:BIAS"
  uint64_t seed = 0;
  bool random_seed = false;  // `seed` was chosen here and must be reported
};

void add_engine_flags(CLI::App& command, EngineOptions& options);
// Adds the flags that control the source of the costs of Steps.
void add_cost_flags(CLI::App& command, EngineOptions& options);
void add_sampling_flags(CLI::App& command, SamplingFlags& flags);
// Adds a flag that takes any text and may be repeated; commas and brackets in the text have no
// special meaning.
CLI::Option* add_texts(CLI::App& command, const std::string& name, std::vector<std::string>& texts,
                       const std::string& help);
void add_stop_flag(CLI::App& command, std::vector<std::string>& stop);

// Returns "--top-p" for the field "top_p".
std::string flag_name(std::string_view field);

// Parses a seed: 0 to 2^64 - 1, or "random" for a random one below 2^53, which every JSON parser
// keeps exactly.
Result<uint64_t> parse_seed(const std::string& text);

// Returns the given options. The others stay unset, so that the checkpoint's defaults apply.
Result<SamplingOptions> sampling_options(const SamplingFlags& flags);

// Creates the engine with a progress bar on the terminal.
Result<std::unique_ptr<Engine>> create_engine(EngineOptions options);

}  // namespace forerun::app
