#include "planner/gpu_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace forerun {
namespace {

constexpr int32_t kMaxGpus = 8;
// One-shot all-reduces through peers' memory take 1.4, 2.8 and 4.2 us on 2, 3 and 4 H200; over PCIe
// a word takes some microseconds each way.
constexpr double kNvlinkExchange = 1.4e-6;
constexpr double kPcieExchange = 8e-6;
constexpr double kPcie4 = 32e9;
// Assumed: about the rate of all-reduces over NVLink, so slower links lose less of their rate.
constexpr double kPcieShare = 0.5;

constexpr const char* kMeasured = "measured on H200 by this project (bench/results)";
constexpr const char* kAssumedEfficiency = "assumed to be the H200's";
constexpr const char* kFittedEfficiency = "MagicDec's engine, fitted to half of its tables' rows";

// Shares and seconds of the GPUs on which MagicDec's tables were measured, in the order of the
// structs.
struct FittedGpu {
  const char* name;
  GpuEfficiency efficiency;
  HostSeconds host;
};
// bench/fit_roofline.py writes these lines.
constexpr FittedGpu kFitted[] = {
    // fitted: begin
    {"h100",
     {.weights = 0.898,
      .attention = 0.965,
      .narrow_attention = 0.965,
      .matrix = 0.599,
      .attention_arithmetic = 1.29,
      .link = 1.0},
     {.step = 9.84e-05,
      .layer = 6.57e-05,
      .sequence = 3.67e-06,
      .draft_sequence = 3.67e-06,
      .round = 0.000436}},
    {"a100",
     {.weights = 0.902,
      .attention = 0.864,
      .narrow_attention = 0.864,
      .matrix = 0.213,
      .attention_arithmetic = 0.51,
      .link = 1.0},
     {.step = 0.000208,
      .layer = 0.000136,
      .sequence = 6.69e-06,
      .draft_sequence = 6.69e-06,
      .round = 0.000625}},
    {"l40",
     {.weights = 0.894,
      .attention = 0.874,
      .narrow_attention = 0.874,
      .matrix = 0.272,
      .attention_arithmetic = 0.531,
      .link = 1.0},
     {.step = 0.000213,
      .layer = 0.000176,
      .sequence = 1.66e-05,
      .draft_sequence = 1.66e-05,
      .round = 0.0011}},
    // fitted: end
};

GpuSpec nvlink(const char* name, double gb, double tb_per_s, double tflops, double link_gb_per_s) {
  return {.name = name,
          .memory_bytes = 1e9 * gb,
          .bandwidth_bytes_per_s = 1e12 * tb_per_s,
          .matrix_flops_per_s = 1e12 * tflops,
          .link_bytes_per_s = 1e9 * link_gb_per_s,
          .exchange_seconds = kNvlinkExchange,
          .efficiency = {},
          .host = {},
          .efficiency_source = kAssumedEfficiency};
}

GpuSpec pcie(const char* name, double gb, double tb_per_s, double tflops) {
  GpuSpec gpu = nvlink(name, gb, tb_per_s, tflops, 1e-9 * kPcie4);
  gpu.exchange_seconds = kPcieExchange;
  gpu.efficiency.link = kPcieShare;
  return gpu;
}

std::vector<GpuSpec> make_known() {
  // From the vendor's data sheets: SXM parts if there are several.
  std::vector<GpuSpec> gpus = {
      nvlink("b200", 180, 8.0, 2250, 900), nvlink("h200", 141, 4.8, 989, 450),
      nvlink("h100", 80, 3.35, 989, 450),  nvlink("h800", 80, 3.35, 989, 200),
      nvlink("a100", 80, 2.039, 312, 300), nvlink("a100-40gb", 40, 1.555, 312, 300),
      pcie("l40s", 48, 0.864, 362),        pcie("l40", 48, 0.864, 181),
      pcie("rtx4090", 24, 1.008, 165),     pcie("rtx3090", 24, 0.936, 71)};
  for (GpuSpec& gpu : gpus) {
    if (gpu.name == "h200") gpu.efficiency_source = kMeasured;
    for (const FittedGpu& fitted : kFitted) {
      if (gpu.name != fitted.name) continue;
      gpu.efficiency = fitted.efficiency;
      gpu.host = fitted.host;
      gpu.efficiency_source = kFittedEfficiency;
    }
  }
  return gpus;
}

Status refuse(const std::string& text, const std::string& found, const std::string& accepted) {
  return {StatusCode::kInvalidArgument,
          "GPUs \"" + text + "\": found " + found + "; accepted: " + accepted};
}

std::string names() {
  std::string list;
  for (const GpuSpec& gpu : known_gpus()) list += (list.empty() ? "" : ", ") + gpu.name;
  return list;
}

const GpuSpec* find(const std::string& name) {
  for (const GpuSpec& gpu : known_gpus()) {
    if (gpu.name == name) return &gpu;
  }
  return nullptr;
}

std::optional<double> number_from_zero(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value) || value < 0.0 || value > 1e7) return std::nullopt;
  return value;
}

bool set_host_field(HostSeconds& host, std::string_view field, double microseconds) {
  const double seconds = 1e-6 * microseconds;
  if (field == "layer") {
    host.layer = seconds;
  } else if (field == "sequence") {
    host.sequence = seconds;
    host.draft_sequence = seconds;
  } else if (field == "step") {
    host.step = seconds;
  } else if (field == "round") {
    host.round = seconds;
  } else {
    return false;
  }
  return true;
}

bool set_field(GpuSpec& gpu, std::string_view field, double value) {
  if (set_host_field(gpu.host, field, value)) return true;
  if (value == 0.0) return false;
  if (field == "bandwidth") {
    gpu.bandwidth_bytes_per_s = 1e9 * value;
  } else if (field == "tflops") {
    gpu.matrix_flops_per_s = 1e12 * value;
  } else if (field == "memory") {
    gpu.memory_bytes = 1e9 * value;
  } else if (field == "link") {
    gpu.link_bytes_per_s = 1e9 * value;
    const bool is_nvlink = gpu.link_bytes_per_s > 2.0 * kPcie4;
    gpu.exchange_seconds = is_nvlink ? kNvlinkExchange : kPcieExchange;
    if (!is_nvlink) gpu.efficiency.link = kPcieShare;
  } else if (field == "efficiency" && value <= 1.0) {
    gpu.efficiency.weights = value;
    gpu.efficiency.attention = value;
    gpu.efficiency_source = "as described";
  } else {
    return false;
  }
  return true;
}

}  // namespace

const std::vector<GpuSpec>& known_gpus() {
  static const std::vector<GpuSpec> gpus = make_known();
  return gpus;
}

Result<GpuGroup> parse_gpus(const std::string& text) {
  GpuGroup group;
  group.gpu.efficiency_source = kAssumedEfficiency;
  std::string_view rest = text;
  if (const size_t colon = rest.rfind(':'); colon != std::string_view::npos) {
    const std::string_view count = rest.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(count.data(), count.data() + count.size(), group.count);
    if (error != std::errc() || end != count.data() + count.size() || group.count < 1 ||
        group.count > kMaxGpus) {
      return refuse(text, "\"" + std::string(count) + "\" after the colon",
                    "1 to " + std::to_string(kMaxGpus) + " GPUs");
    }
    rest = rest.substr(0, colon);
  }
  bool named = false;
  for (bool first = true; first || !rest.empty(); first = false) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    rest = rest.substr(std::min(comma + 1, rest.size()));
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      if (!first) {
        return refuse(text, "\"" + std::string(part) + "\" after the first comma",
                      "one name, then fields such as memory=GB");
      }
      std::string name(part);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      const GpuSpec* const known = find(name);
      if (known == nullptr) {
        return refuse(text, "\"" + std::string(part) + "\"",
                      names() + ", or bandwidth=GB/s,tflops=TFLOP/s,memory=GB[,link=GB/s]");
      }
      group.gpu = *known;
      named = true;
      continue;
    }
    const auto value = number_from_zero(part.substr(equals + 1));
    if (!value || !set_field(group.gpu, part.substr(0, equals), *value)) {
      return refuse(text, "\"" + std::string(part) + "\"",
                    "bandwidth, tflops, memory and link with a number above 0 (GB/s, TFLOP/s, GB, "
                    "GB/s), efficiency above 0 and to 1, and layer, sequence, step and round from "
                    "0 (us)");
    }
    if (group.gpu.name.empty()) group.gpu.name = "as described";
  }
  const GpuSpec& gpu = group.gpu;
  if (!named && (gpu.bandwidth_bytes_per_s <= 0.0 || gpu.matrix_flops_per_s <= 0.0 ||
                 gpu.memory_bytes <= 0.0)) {
    return refuse(text, "a description without bandwidth, tflops or memory",
                  "descriptions with all three");
  }
  if (group.count > 1 && gpu.link_bytes_per_s <= 0.0) {
    return refuse(text, "no link for " + std::to_string(group.count) + " GPUs",
                  "descriptions with link=GB/s");
  }
  return group;
}

}  // namespace forerun
