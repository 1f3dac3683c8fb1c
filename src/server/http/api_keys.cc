#include "server/http/api_keys.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/printable.h"

namespace forerun::server {
namespace {

// Reads "min_priority=N".
std::optional<int32_t> min_priority_in(std::string_view word) {
  constexpr std::string_view kName = "min_priority=";
  if (!word.starts_with(kName)) return std::nullopt;
  word.remove_prefix(kName.size());
  int32_t priority = 0;
  const char* const last = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data(), last, priority);
  if (error != std::errc() || end != last) return std::nullopt;
  if (priority < -kMaxPriority || priority > kMaxPriority) return std::nullopt;
  return priority;
}

}  // namespace

Result<std::vector<ApiKey>> read_api_keys(const std::string& path) {
  const auto refused = [&](const std::string& message) {
    return Status(StatusCode::kInvalidArgument, path + message);
  };
  std::ifstream file(path);
  if (!file) return refused(": cannot be read");
  std::vector<ApiKey> keys;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line);
    ApiKey key;
    if (!(words >> key.key) || key.key.front() == '#') continue;
    for (std::string word; words >> word;) {
      key.min_priority = min_priority_in(word);
      if (key.min_priority) continue;
      return refused(", line " + std::to_string(number) + ": found '" + printable(word) +
                     "' after the key; accepted: min_priority=N, N from " +
                     std::to_string(-kMaxPriority) + " to " + std::to_string(kMaxPriority));
    }
    keys.push_back(std::move(key));
  }
  if (keys.empty()) return refused(": holds no key");
  return keys;
}

}  // namespace forerun::server
