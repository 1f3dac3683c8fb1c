#include "text/testing.h"

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

namespace forerun::text {

std::string shared_data_dir() { return FORERUN_SOURCE_DIR "/../shared/data"; }

std::string read_shared_file(const std::string& path) {
  std::ifstream file(shared_data_dir() + "/" + path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::string> read_shared_lines(const std::string& path) {
  std::istringstream file(read_shared_file(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::string read_shared_tokenizer_json(const std::string& name) {
  const std::string file = shared_data_dir() + "/tokenizers/" + name + ".tokenizer.json.xz";
  if (!std::ifstream(file)) return "";
  const std::string command = "xz -dc '" + file + "'";
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return "";
  std::string bytes;
  std::array<char, 1 << 16> buffer;
  for (size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    bytes.append(buffer.data(), got);
  }
  return pclose(pipe) == 0 ? bytes : "";
}

std::unique_ptr<Tokenizer> load_shared_tokenizer(const std::string& name) {
  const std::string bytes = read_shared_tokenizer_json(name);
  if (bytes.empty()) return nullptr;
  Result<Tokenizer> tokenizer = Tokenizer::from_json(bytes, name + ".tokenizer.json");
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().message().c_str());
    return nullptr;
  }
  return std::make_unique<Tokenizer>(std::move(tokenizer).value());
}

}  // namespace forerun::text
