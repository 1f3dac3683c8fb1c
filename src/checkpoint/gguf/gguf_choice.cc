#include "checkpoint/gguf/gguf_choice.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <system_error>
#include <vector>

#include "base/lower_case.h"

namespace forerun {
namespace {

// The name without ".gguf" and without the "-00001-of-00003" of a first part; empty for what is no
// model of its own.
std::string model_name(const std::string& file) {
  if (!file.ends_with(".gguf") || file.starts_with("mmproj")) return "";
  std::string name = file.substr(0, file.size() - 5);
  const size_t of = name.rfind("-of-");
  if (of == std::string::npos || of < 6 || name[of - 6] != '-') return name;
  const std::string part = name.substr(of - 5, 5);
  if (!std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); }))
    return name;
  return part == "00001" ? name.substr(0, of - 6) : "";
}

bool is_quantized_as(const std::string& name, std::string_view quantization) {
  const std::string whole = lower_case(name);
  const std::string end = lower_case(std::string(quantization));
  if (end.empty()) return true;
  if (!whole.ends_with(end)) return false;
  if (whole.size() == end.size()) return true;
  const char before = whole[whole.size() - end.size() - 1];
  return before == '-' || before == '.' || before == '_';
}

}  // namespace

Result<std::filesystem::path> choose_gguf(const std::filesystem::path& dir,
                                          std::string_view quantization) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (!model_name(file).empty()) files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  if (quantization.empty() &&
      (files.empty() || std::filesystem::exists(dir / "config.json", error))) {
    return dir;
  }
  std::vector<std::string> fitting;
  for (const std::string& file : files) {
    if (is_quantized_as(model_name(file), quantization)) fitting.push_back(file);
  }
  if (fitting.size() == 1) return dir / fitting.front();
  std::string found;
  for (const std::string& file : fitting.empty() ? files : fitting) {
    found += (found.empty() ? "" : ", ") + file;
  }
  if (fitting.empty()) {
    return Status(StatusCode::kNotFound, dir.string() + ": found " +
                                             (found.empty() ? "no GGUF file" : found) +
                                             "; accepted: a file whose name ends with \"" +
                                             std::string(quantization) + "\"");
  }
  return Status(StatusCode::kInvalidArgument,
                dir.string() + ": found several models (" + found +
                    "); accepted: one of these files, or the directory with a quantization after "
                    "it, e.g. \":Q4_K_M\"");
}

}  // namespace forerun
