#include "engine/device_spec.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "device/cpu/team.h"

namespace forerun {
namespace {

std::optional<int32_t> parse_number(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

Status refused(std::string_view part) {
  return Status(StatusCode::kInvalidArgument,
                "devices: found '" + std::string(part) +
                    "', expected a list such as cpu:0,cpu:1 or cpu:0-3; this process may use " +
                    std::to_string(available_cores().size()) + " processors");
}

}  // namespace

Result<std::vector<int32_t>> parse_cpu_devices(std::string_view spec) {
  if (spec.empty() || spec == "cpu") return available_cores();
  std::vector<int32_t> cores;
  while (true) {
    const size_t comma = spec.find(',');
    const std::string_view part = spec.substr(0, comma);
    if (!part.starts_with("cpu:")) return refused(part);
    const std::string_view range = part.substr(4);
    const size_t dash = range.find('-');
    const auto first = parse_number(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number(range.substr(dash + 1));
    constexpr int32_t kMostCores = 4096;
    if (!first || !last || *last < *first || *last >= kMostCores) return refused(part);
    for (int32_t core = *first; core <= *last; ++core) cores.push_back(core);
    if (comma == std::string_view::npos) break;
    spec.remove_prefix(comma + 1);
  }
  std::sort(cores.begin(), cores.end());
  if (std::adjacent_find(cores.begin(), cores.end()) != cores.end()) {
    return Status(StatusCode::kInvalidArgument, "devices: a processor is named twice");
  }
  return cores;
}

}  // namespace forerun
