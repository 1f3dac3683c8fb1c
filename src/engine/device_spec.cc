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

namespace {

bool names_gpus(std::string_view spec) { return spec.starts_with("cuda"); }

// "cuda" or "cuda:1".
Result<int32_t> parse_gpu(std::string_view spec) {
  if (spec == "cuda") return 0;
  const auto number =
      spec.starts_with("cuda:") ? parse_number(spec.substr(5)) : std::optional<int32_t>();
  if (number) return *number;
  if (spec.find(',') != std::string_view::npos) {
    return Status(StatusCode::kUnsupported,
                  "devices: found '" + std::string(spec) +
                      "', but a model runs on one GPU as yet; accepted is one, such as cuda:0");
  }
  return Status(StatusCode::kInvalidArgument,
                "devices: found '" + std::string(spec) + "', expected a GPU such as cuda:0");
}

// `cores` without `taken`; all of them where none would be left.
std::vector<int32_t> others(std::vector<int32_t> cores, const std::vector<int32_t>& taken) {
  std::vector<int32_t> rest = cores;
  std::erase_if(rest, [&](int32_t core) {
    return std::find(taken.begin(), taken.end(), core) != taken.end();
  });
  return rest.empty() ? cores : rest;
}

Result<Placement> split_cores(std::string_view target_spec, std::string_view draft_spec) {
  Placement split;
  std::vector<int32_t>& target = split.target.cores;
  FORERUN_ASSIGN_OR_RETURN(target, parse_cpu_devices(target_spec));
  if (draft_spec.empty()) return split;
  split.draft.emplace();
  const std::vector<int32_t>& draft = split.draft->cores;
  FORERUN_ASSIGN_OR_RETURN(split.draft->cores, parse_cpu_devices(draft_spec));
  const auto is_drafts = [&](int32_t core) {
    return std::binary_search(draft.begin(), draft.end(), core);
  };
  if (target_spec.empty()) {
    std::erase_if(target, is_drafts);
    if (!target.empty()) return split;
    return Status(StatusCode::kInvalidArgument,
                  "draft devices: '" + std::string(draft_spec) +
                      "' leaves no processor for the target; without draft devices both models run "
                      "on the same ones in turn");
  }
  const auto shared = std::find_if(target.begin(), target.end(), is_drafts);
  if (shared == target.end()) return split;
  return Status(StatusCode::kInvalidArgument,
                "devices: cpu:" + std::to_string(*shared) +
                    " is named for the target and for the draft; without draft devices both models "
                    "run on the same processors in turn");
}

}  // namespace

Result<Placement> place_models(std::string_view target_spec, std::string_view draft_spec) {
  const bool target_gpu = names_gpus(target_spec);
  const bool draft_gpu = names_gpus(draft_spec);
  if (!target_gpu && !draft_gpu) return split_cores(target_spec, draft_spec);
  Placement split;
  const std::vector<int32_t> all = available_cores();
  if (target_gpu) {
    FORERUN_ASSIGN_OR_RETURN(split.target.gpu, parse_gpu(target_spec));
    split.target.cores = all;
  } else {
    FORERUN_ASSIGN_OR_RETURN(split.target.cores, parse_cpu_devices(target_spec));
  }
  if (draft_spec.empty()) return split;
  ModelPlacement& draft = split.draft.emplace();
  if (!draft_gpu) {
    FORERUN_ASSIGN_OR_RETURN(draft.cores, parse_cpu_devices(draft_spec));
    split.target.cores = others(all, draft.cores);
    return split;
  }
  FORERUN_ASSIGN_OR_RETURN(draft.gpu, parse_gpu(draft_spec));
  if (draft.gpu == split.target.gpu) {
    return Status(StatusCode::kInvalidArgument,
                  "devices: cuda:" + std::to_string(*draft.gpu) +
                      " is named for the target and for the draft; without draft devices both "
                      "models run on the same GPU in turn");
  }
  // The last half samples for the draft, or what the target's passes leave.
  const std::vector<int32_t> half(all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2),
                                  all.end());
  draft.cores = target_gpu ? half : others(all, split.target.cores);
  if (target_gpu || target_spec.empty()) split.target.cores = others(all, draft.cores);
  return split;
}

}  // namespace forerun
