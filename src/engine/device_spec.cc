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

Result<CpuSplit> split_cpu_devices(std::string_view target_spec, std::string_view draft_spec) {
  CpuSplit split;
  FORERUN_ASSIGN_OR_RETURN(split.target, parse_cpu_devices(target_spec));
  if (draft_spec.empty()) return split;
  FORERUN_ASSIGN_OR_RETURN(split.draft, parse_cpu_devices(draft_spec));
  const auto is_drafts = [&](int32_t core) {
    return std::binary_search(split.draft.begin(), split.draft.end(), core);
  };
  if (target_spec.empty()) {
    std::erase_if(split.target, is_drafts);
    if (!split.target.empty()) return split;
    return Status(StatusCode::kInvalidArgument,
                  "draft devices: '" + std::string(draft_spec) +
                      "' leaves no processor for the target; without draft devices both models run "
                      "on the same ones in turn");
  }
  const auto shared = std::find_if(split.target.begin(), split.target.end(), is_drafts);
  if (shared == split.target.end()) return split;
  return Status(StatusCode::kInvalidArgument,
                "devices: cpu:" + std::to_string(*shared) +
                    " is named for the target and for the draft; without draft devices both models "
                    "run on the same processors in turn");
}

}  // namespace forerun
