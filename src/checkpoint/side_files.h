// The content of the files beside the weights, as pairs of name and value, to compare the copies of
// a checkpoint on several machines.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace forerun {

// Every field of config.json, generation_config.json, quant_config.json and tokenizer_config.json,
// such as "config.json, rope_scaling.factor" with its value as JSON, and the digest of
// tokenizer.json's bytes. A long value is given by its digest, and so is a file that is not JSON. A
// file that is not there has no fields. Sorted by name.
std::vector<std::pair<std::string, std::string>> side_file_facts(const std::filesystem::path& dir);

// The same for any checkpoint: a GGUF file's metadata are its side files.
std::vector<std::pair<std::string, std::string>> description_facts(const Checkpoint& checkpoint);

}  // namespace forerun
