// Helpers for this folder's tests and benches: they read data beside the repository and unpack
// packed files.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace forerun::text {

// Returns <repository>/../shared/data.
std::string shared_data_dir();

// Returns a file below shared_data_dir(); empty if it is absent.
std::string read_shared_file(const std::string& path);

// Returns the non-empty lines of such a file.
std::vector<std::string> read_shared_lines(const std::string& path);

// Returns tokenizers/<name>.tokenizer.json.xz unpacked by `xz`; empty if file or program is absent.
std::string read_shared_tokenizer_json(const std::string& name);

// Returns null if it is absent or refused (then with a line on standard error).
std::unique_ptr<Tokenizer> load_shared_tokenizer(const std::string& name);

}  // namespace forerun::text
