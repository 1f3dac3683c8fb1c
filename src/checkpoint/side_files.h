// The contents of the files beside the weights, as pairs of name and value, to compare the copies
// of a checkpoint on several machines.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace forerun {

// Returns every field of config.json, generation_config.json, quant_config.json and
// tokenizer_config.json, such as "config.json, rope_scaling.factor" with its value as JSON, and the
// digest of tokenizer.json's bytes. A digest replaces a long value and a file that is not JSON. A
// missing file has no fields. Sorted by name.
std::vector<std::pair<std::string, std::string>> side_file_facts(const std::filesystem::path& dir);

// Returns the same for any checkpoint: a GGUF file's metadata count as its side files.
std::vector<std::pair<std::string, std::string>> description_facts(const Checkpoint& checkpoint);

}  // namespace forerun
