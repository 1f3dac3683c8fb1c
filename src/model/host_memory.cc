#include "model/host_memory.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

namespace forerun {
namespace {

std::optional<int64_t> parse_number(const std::string& text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;  // "max", or larger than any memory
  return value;
}

std::optional<int64_t> read_number(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string word;
  if (!(in >> word)) return std::nullopt;
  return parse_number(word);
}

// Returns the number after `key` in a file of "key number" lines.
std::optional<int64_t> read_field(const std::filesystem::path& file, const std::string& key) {
  std::ifstream in(file);
  std::string word;
  std::string rest;
  while (in >> word) {
    if (word == key) {
      std::string number;
      if (in >> number) return parse_number(number);
      return std::nullopt;
    }
    std::getline(in, rest);
  }
  return std::nullopt;
}

void lower(DeviceMemory& limit, int64_t available, std::string source) {
  if (available >= limit.available_bytes) return;
  limit.available_bytes = std::max<int64_t>(available, 0);
  limit.source = std::move(source);
}

void lower_by_group(DeviceMemory& limit, const std::filesystem::path& folder,
                    const char* limit_name, const char* usage_name, const char* cache_name) {
  const auto maximum = read_number(folder / limit_name);
  const auto usage = read_number(folder / usage_name);
  if (!maximum || !usage) return;
  const int64_t cache = read_field(folder / "memory.stat", cache_name).value_or(0);
  lower(limit, *maximum - *usage + cache, (folder / limit_name).string());
}

}  // namespace

DeviceMemory host_memory(const std::filesystem::path& root) {
  DeviceMemory limit{.name = "this machine", .is_host = true};
  if (const auto kilobytes = read_field(root / "proc/meminfo", "MemAvailable:")) {
    lower(limit, *kilobytes * 1024, "MemAvailable");
  }
  // Version 2 has lines "0::/path", version 1 "4:memory:/path". Every group up to the root may
  // limit.
  std::ifstream groups(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const size_t path_begin = line.find(":/");
    if (path_begin == std::string::npos) continue;
    const bool version2 = line.rfind("0::", 0) == 0;
    if (!version2 && line.find(":memory:") == std::string::npos) continue;
    const std::filesystem::path mount =
        root / (version2 ? "sys/fs/cgroup" : "sys/fs/cgroup/memory");
    std::filesystem::path group = line.substr(path_begin + 2);
    while (true) {
      if (version2) {
        lower_by_group(limit, mount / group, "memory.max", "memory.current", "inactive_file");
      } else {
        lower_by_group(limit, mount / group, "memory.limit_in_bytes", "memory.usage_in_bytes",
                       "total_inactive_file");
      }
      if (group.empty()) break;
      group = group.parent_path();
    }
  }
  return limit;
}

}  // namespace forerun
