// For this folder's tests and benches: data beside the repository, unpacked where it is packed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace forerun::text {

// <repository>/../shared/data
std::string shared_data_dir();

// A file below shared_data_dir(); empty where it is absent.
std::string read_shared_file(const std::string& path);

// The lines of such a file without the empty ones.
std::vector<std::string> read_shared_lines(const std::string& path);

// tokenizers/<name>.tokenizer.json.xz unpacked by `xz`; empty where file or program is absent.
std::string read_shared_tokenizer_json(const std::string& name);

// Null where it is absent or refused (then with a line on standard error).
std::unique_ptr<Tokenizer> load_shared_tokenizer(const std::string& name);

}  // namespace forerun::text
