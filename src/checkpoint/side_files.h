// What the files beside the weights say, as pairs of name and value, for comparing the copies of a
// checkpoint that several machines have.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace forerun {

// Every field of config.json, generation_config.json, quant_config.json and tokenizer_config.json,
// such as "config.json, rope_scaling.factor" with its value as JSON, and the digest of
// tokenizer.json's bytes. A long value is told by its digest, and so is a file that is no JSON. A
// file that is not there has no fields. In the order of names.
std::vector<std::pair<std::string, std::string>> side_file_facts(const std::filesystem::path& dir);

}  // namespace forerun
