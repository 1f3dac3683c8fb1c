// What the files beside the weights say, as pairs of name and value, for comparing the copies of a
// checkpoint that several machines have.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace forerun {

// Of config.json, generation_config.json, quant_config.json and tokenizer_config.json every field,
// "config.json, rope_scaling.factor" with its value as JSON; of tokenizer.json the digest of its
// bytes. A value that is long is told by its digest, and so is a file that is no JSON. Of a file
// that is not there nothing is told. In the order of names.
std::vector<std::pair<std::string, std::string>> side_file_facts(const std::filesystem::path& dir);

}  // namespace forerun
