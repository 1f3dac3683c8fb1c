#include "runner/workload.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/status_macros.h"

namespace forerun::bench {
namespace {

Result<std::string> prompt_of(const std::string& line, const std::string& where) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_object()) {
    if (const auto it = json.find("prompt"); it != json.end() && it->is_string()) {
      return it->get<std::string>();
    }
    if (const auto it = json.find("turns");
        it != json.end() && it->is_array() && !it->empty() && it->front().is_string()) {
      return it->front().get<std::string>();
    }
  }
  return Status(StatusCode::kInvalidArgument,
                where +
                    ": found a line of another kind; accepted: a JSON object with \"prompt\" (a "
                    "string) or \"turns\" "
                    "(a list of strings)");
}

// Number of tokens that each further pass skips; prime, so that beginnings stay different for long
// although texts repeat.
constexpr size_t kSkippedTokens = 19;

}  // namespace

Result<std::vector<std::string>> read_prompts(const std::string& path, int limit) {
  // A pipe has no size, and /dev/zero no end.
  constexpr size_t kMaxBytes = size_t{256} << 20;
  std::string text;
  std::ifstream in(path, std::ios::binary);
  for (char chunk[1 << 16];
       text.size() <= kMaxBytes && (in.read(chunk, sizeof chunk), in.gcount() > 0);) {
    text.append(chunk, static_cast<size_t>(in.gcount()));
  }
  if (in.bad() || (text.empty() && !in.eof())) {
    return Status(StatusCode::kNotFound, "prompts: cannot read '" + path + "'");
  }
  if (text.size() > kMaxBytes) {
    return Status(StatusCode::kInvalidArgument,
                  "prompts: '" + path + "' holds more than 256 MiB; accepted: shorter files");
  }
  std::istringstream file(text);
  std::vector<std::string> prompts;
  int line_number = 0;
  for (std::string line; std::getline(file, line);) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    FORERUN_ASSIGN_OR_RETURN(std::string prompt,
                             prompt_of(line, path + ":" + std::to_string(line_number)));
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) {
    return Status(StatusCode::kInvalidArgument, "prompts: '" + path + "' holds no prompt");
  }
  const size_t wanted = static_cast<size_t>(limit);
  if (limit <= 0 || wanted >= prompts.size()) return prompts;
  std::vector<std::string> chosen;
  for (size_t index = 0; index < wanted; ++index) {
    chosen.push_back(std::move(prompts[index * prompts.size() / wanted]));
  }
  return chosen;
}

std::vector<std::vector<int32_t>> prompts_of_length(const std::vector<std::vector<int32_t>>& texts,
                                                    int count, int32_t length) {
  std::vector<int32_t> circle;
  std::vector<size_t> begins;
  for (const std::vector<int32_t>& text : texts) {
    begins.push_back(circle.size());
    circle.insert(circle.end(), text.begin(), text.end());
  }
  std::vector<std::vector<int32_t>> prompts;
  for (size_t index = 0; index < static_cast<size_t>(count); ++index) {
    const size_t begin = begins[index % begins.size()] + kSkippedTokens * (index / begins.size());
    std::vector<int32_t>& prompt = prompts.emplace_back();
    for (size_t offset = 0; offset < static_cast<size_t>(length); ++offset) {
      prompt.push_back(circle[(begin + offset) % circle.size()]);
    }
  }
  return prompts;
}

}  // namespace forerun::bench
