#include "engine/device_spec.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

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
                    "', expected devices such as cpu:0, cpu:0-3 or cpu:0+2, a comma between two of "
                    "them; this process may use " +
                    std::to_string(available_cores().size()) + " processors");
}

// The text before the next `separator`, which is taken off `rest` with it.
std::string_view take_part(std::string_view& rest, char separator, bool* last) {
  const size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  *last = end == std::string_view::npos;
  rest.remove_prefix(*last ? rest.size() : end + 1);
  return part;
}

Result<CpuCores> parse_device(std::string_view text) {
  CpuCores device;
  if (text == "cpu") {
    device.cores = available_cores();
    return device;
  }
  if (!text.starts_with("cpu:")) return refused(text);
  std::string_view rest = text.substr(4);
  for (bool last = false; !last;) {
    const std::string_view range = take_part(rest, '+', &last);
    const size_t dash = range.find('-');
    const auto first = parse_number(range.substr(0, dash));
    const auto end = dash == std::string_view::npos ? first : parse_number(range.substr(dash + 1));
    constexpr int32_t kMostCores = 4096;
    if (!first || !end || *end < *first || *end >= kMostCores) return refused(text);
    for (int32_t core = *first; core <= *end; ++core) device.cores.push_back(core);
  }
  std::sort(device.cores.begin(), device.cores.end());
  const auto twice = std::adjacent_find(device.cores.begin(), device.cores.end());
  if (twice != device.cores.end()) {
    return Status(StatusCode::kInvalidArgument, "devices: '" + std::string(text) +
                                                    "' names processor " + std::to_string(*twice) +
                                                    " twice");
  }
  return device;
}

bool uses(const std::vector<CpuCores>& devices, int32_t core) {
  return std::any_of(devices.begin(), devices.end(), [core](const CpuCores& device) {
    return std::binary_search(device.cores.begin(), device.cores.end(), core);
  });
}

}  // namespace

Result<std::vector<CpuCores>> parse_cpu_devices(std::string_view spec) {
  if (spec.empty()) spec = "cpu";
  std::vector<CpuCores> devices;
  for (bool last = false; !last;) {
    FORERUN_ASSIGN_OR_RETURN(CpuCores device, parse_device(take_part(spec, ',', &last)));
    devices.push_back(std::move(device));
  }
  return devices;
}

Result<CpuSplit> split_cpu_devices(std::string_view target_spec, std::string_view draft_spec) {
  CpuSplit split;
  FORERUN_ASSIGN_OR_RETURN(split.target, parse_cpu_devices(target_spec));
  if (draft_spec.empty()) return split;
  FORERUN_ASSIGN_OR_RETURN(split.draft, parse_cpu_devices(draft_spec));
  if (target_spec.empty()) {
    std::vector<int32_t>& cores = split.target.front().cores;
    std::erase_if(cores, [&](int32_t core) { return uses(split.draft, core); });
    if (!cores.empty()) return split;
    return Status(StatusCode::kInvalidArgument,
                  "draft devices: '" + std::string(draft_spec) +
                      "' leaves no processor for the target; without draft devices both models run "
                      "on the same ones in turn");
  }
  for (const CpuCores& device : split.target) {
    for (const int32_t core : device.cores) {
      if (!uses(split.draft, core)) continue;
      return Status(StatusCode::kInvalidArgument,
                    "devices: cpu:" + std::to_string(core) +
                        " is named for the target and for the draft; without draft devices both "
                        "models run on the same processors in turn");
    }
  }
  return split;
}

}  // namespace forerun
