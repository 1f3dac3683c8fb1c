#include "engine/load/device_spec.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"

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
                    "'; accepted: devices such as cpu:0, cpu:0-3, cpu:0+2 or cuda:0, separated by "
                    "commas; this process may use " +
                    std::to_string(available_cores().size()) + " processors");
}

// Removes the text up to the next `separator`, and the separator, from `rest`; returns the text.
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
    constexpr int32_t kMaxCores = 4096;
    if (!first || !end || *end < *first || *end >= kMaxCores) return refused(text);
    for (int32_t core = *first; core <= *end; ++core) device.cores.push_back(core);
  }
  std::sort(device.cores.begin(), device.cores.end());
  const auto twice = std::adjacent_find(device.cores.begin(), device.cores.end());
  if (twice != device.cores.end()) {
    return Status(StatusCode::kInvalidArgument, "devices: found processor " +
                                                    std::to_string(*twice) + " twice in '" +
                                                    std::string(text) + "'; accepted: once");
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

namespace {

bool names_gpus(std::string_view spec) { return spec.starts_with("cuda"); }

// Reads the GPU numbers in "cuda", "cuda:1" or "cuda:0,cuda:1".
Result<std::vector<int32_t>> parse_gpus(std::string_view spec) {
  std::vector<int32_t> gpus;
  std::string_view rest = spec;
  for (bool last = false; !last;) {
    const std::string_view part = take_part(rest, ',', &last);
    const auto number = part == "cuda"              ? std::optional<int32_t>(0)
                        : part.starts_with("cuda:") ? parse_number(part.substr(5))
                                                    : std::nullopt;
    if (!number) {
      return Status(StatusCode::kInvalidArgument,
                    "devices: found '" + std::string(part) + "' in '" + std::string(spec) +
                        "'; accepted: GPUs such as cuda:0, separated by commas");
    }
    if (std::find(gpus.begin(), gpus.end(), *number) != gpus.end()) {
      return Status(StatusCode::kInvalidArgument,
                    "devices: found cuda:" + std::to_string(*number) + " twice in '" +
                        std::string(spec) +
                        "'; accepted: once, since a GPU holds one part of a model");
    }
    gpus.push_back(*number);
  }
  return gpus;
}

// Returns whether any stage of the model uses the GPU.
bool uses_gpu(const ModelPlacement& model, int32_t gpu) {
  const auto has = [gpu](const ModelPlacement& stage) {
    return std::find(stage.gpus.begin(), stage.gpus.end(), gpu) != stage.gpus.end();
  };
  return has(model) || std::any_of(model.earlier.begin(), model.earlier.end(), has);
}

// Returns one device of all processors except `taken`, or of all processors if none would be left.
std::vector<CpuCores> all_but(const std::vector<CpuCores>& taken) {
  const std::vector<int32_t> all = available_cores();
  std::vector<int32_t> rest = all;
  std::erase_if(rest, [&](int32_t core) { return uses(taken, core); });
  return {CpuCores{.cores = rest.empty() ? all : rest}};
}

// Refuses processors that both models would use: models with devices of their own run concurrently.
Status check_apart(const std::vector<CpuCores>& target, const std::vector<CpuCores>& draft) {
  for (const CpuCores& device : target) {
    for (const int32_t core : device.cores) {
      if (!uses(draft, core)) continue;
      return Status(StatusCode::kInvalidArgument,
                    "devices: found cpu:" + std::to_string(core) +
                        " for the target and for the draft; accepted: other processors for the "
                        "draft (concurrent), or no draft devices (sequential)");
    }
  }
  return Status();
}

// Returns the second half of all processors, on which the draft samples.
std::vector<CpuCores> last_half() {
  const std::vector<int32_t> all = available_cores();
  return {
      CpuCores{.cores = {all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end()}}};
}

Result<Placement> split_processors(std::string_view target_spec, std::string_view draft_spec) {
  Placement split;
  std::vector<CpuCores>& target = split.target.devices;
  FORERUN_ASSIGN_OR_RETURN(target, parse_cpu_devices(target_spec));
  if (draft_spec.empty()) return split;
  std::vector<CpuCores>& draft = split.draft.emplace().devices;
  FORERUN_ASSIGN_OR_RETURN(draft, parse_cpu_devices(draft_spec));
  if (target_spec.empty()) {
    std::vector<int32_t>& cores = target.front().cores;
    std::erase_if(cores, [&](int32_t core) { return uses(draft, core); });
    if (!cores.empty()) return split;
    return Status(StatusCode::kInvalidArgument,
                  "draft devices: found '" + std::string(draft_spec) +
                      "', which leaves no processor for the target; accepted: fewer (concurrent), "
                      "or no draft devices (sequential)");
  }
  FORERUN_RETURN_IF_ERROR(check_apart(target, draft));
  return split;
}

// Places a target without pipeline stages, and the draft.
Result<Placement> place_uncut(std::string_view target_spec, std::string_view draft_spec) {
  const bool target_gpu = names_gpus(target_spec);
  const bool draft_gpu = names_gpus(draft_spec);
  if (!target_gpu && !draft_gpu) return split_processors(target_spec, draft_spec);
  Placement split;
  if (target_gpu) {
    FORERUN_ASSIGN_OR_RETURN(split.target.gpus, parse_gpus(target_spec));
    split.target.devices = all_but({});
  } else {
    FORERUN_ASSIGN_OR_RETURN(split.target.devices, parse_cpu_devices(target_spec));
  }
  if (draft_spec.empty()) return split;
  ModelPlacement& draft = split.draft.emplace();
  if (!draft_gpu) {
    FORERUN_ASSIGN_OR_RETURN(draft.devices, parse_cpu_devices(draft_spec));
    split.target.devices = all_but(draft.devices);
    return split;
  }
  FORERUN_ASSIGN_OR_RETURN(draft.gpus, parse_gpus(draft_spec));
  const auto shared = std::find_if(draft.gpus.begin(), draft.gpus.end(),
                                   [&](int32_t gpu) { return uses_gpu(split.target, gpu); });
  if (shared != draft.gpus.end()) {
    if (split.sequential()) {
      draft.devices = split.target.devices;
      return split;
    }
    return Status(StatusCode::kInvalidArgument,
                  "draft devices: found '" + std::string(draft_spec) +
                      "', which has cuda:" + std::to_string(*shared) +
                      " in common with the target, but also other GPUs; accepted: only the "
                      "target's GPUs (sequential) or none of them (concurrent)");
  }
  if (!target_gpu && !target_spec.empty()) {
    draft.devices = all_but(split.target.devices);
    return split;
  }
  draft.devices = last_half();
  split.target.devices = all_but(draft.devices);
  return split;
}

// Inserts a stage right before the target's last one.
Status add_earlier_stage(std::string_view spec, Placement& placement) {
  ModelPlacement stage;
  if (names_gpus(spec) != placement.target.on_gpus()) {
    return Status(StatusCode::kInvalidArgument,
                  "devices: found '" + std::string(spec) +
                      "' beside stages on other devices; accepted: processors for all stages, or "
                      "GPUs for all");
  }
  if (placement.target.on_gpus()) {
    FORERUN_ASSIGN_OR_RETURN(stage.gpus, parse_gpus(spec));
  } else {
    FORERUN_ASSIGN_OR_RETURN(stage.devices, parse_cpu_devices(spec));
    if (placement.draft && !placement.draft->on_gpus()) {
      // Refuses processors that both models would use.
      FORERUN_RETURN_IF_ERROR(check_apart(stage.devices, placement.draft->devices));
    }
  }
  placement.target.earlier.push_back(std::move(stage));
  return Status();
}

}  // namespace

Result<Placement> place_models(std::string_view target_spec, std::string_view draft_spec,
                               int32_t stages) {
  if (stages < 0 || stages > kMaxStages) {
    return Status(StatusCode::kInvalidArgument, "stages: found " + std::to_string(stages) +
                                                    "; accepted: 1 to " +
                                                    std::to_string(kMaxStages));
  }
  if (draft_spec.find('/') != std::string_view::npos) {
    return Status(StatusCode::kInvalidArgument,
                  "draft devices: found '" + std::string(draft_spec) +
                      "'; accepted: one group, since a draft is not cut into stages");
  }
  std::vector<std::string_view> groups;
  std::string_view rest = target_spec;
  for (bool last = false; !last;) groups.push_back(take_part(rest, '/', &last));
  const auto named = static_cast<int32_t>(groups.size());
  if (named > kMaxStages || (named > 1 && stages > 0 && stages != named)) {
    return Status(StatusCode::kInvalidArgument,
                  "devices: found " + std::to_string(named) + " groups in '" +
                      std::string(target_spec) + "' for " + std::to_string(stages) +
                      " stages; accepted: one for each stage, at most " +
                      std::to_string(kMaxStages) + ", or one group of processors for all");
  }
  if (named == 1 || target_spec.empty()) {
    FORERUN_ASSIGN_OR_RETURN(Placement placement, place_uncut(target_spec, draft_spec));
    if (stages <= 1) return placement;
    const ModelPlacement last = placement.target;
    if (last.on_gpus()) {
      return Status(StatusCode::kInvalidArgument,
                    "devices: found '" + std::string(target_spec) + "' for " +
                        std::to_string(stages) +
                        " stages; accepted: the GPUs of each stage, separated by slashes, such as "
                        "cuda:0/cuda:1");
    }
    placement.target.earlier.assign(static_cast<size_t>(stages - 1), last);
    return placement;
  }
  for (const std::string_view group : groups) {
    if (group.empty()) {
      return Status(StatusCode::kInvalidArgument, "devices: found an empty group in '" +
                                                      std::string(target_spec) +
                                                      "'; accepted: the devices of each stage");
    }
  }
  // A draft may use the GPUs of a stage, since both take turns by single passes.
  Placement placement;
  const bool draft_gpu = names_gpus(draft_spec);
  if (draft_gpu && names_gpus(groups.back())) {
    FORERUN_ASSIGN_OR_RETURN(placement, place_uncut(groups.back(), ""));
    FORERUN_ASSIGN_OR_RETURN(placement.draft.emplace().gpus, parse_gpus(draft_spec));
    placement.draft->devices = last_half();
    placement.target.devices = all_but(placement.draft->devices);
  } else {
    FORERUN_ASSIGN_OR_RETURN(placement, place_uncut(groups.back(), draft_spec));
  }
  groups.pop_back();
  for (const std::string_view group : groups) {
    FORERUN_RETURN_IF_ERROR(add_earlier_stage(group, placement));
  }
  return placement;
}

bool Placement::sequential() const {
  if (!draft) return true;
  return !on_hosts && target.num_stages() == 1 && draft->on_gpus() &&
         std::all_of(draft->gpus.begin(), draft->gpus.end(),
                     [this](int32_t gpu) { return uses_gpu(target, gpu); });
}

namespace {

std::string describe(const ModelPlacement& model) {
  std::string text;
  for (const ModelPlacement& stage : model.earlier) text += describe(stage) + "/";
  std::string devices;
  for (const int32_t gpu : model.gpus) {
    devices += (devices.empty() ? "" : ",") + ("cuda:" + std::to_string(gpu));
  }
  if (model.on_gpus()) return text + devices;
  for (const CpuCores& device : model.devices) {
    devices += (devices.empty() ? "" : ",") + std::string("cpu");
    const std::vector<int32_t>& cores = device.cores;
    for (size_t first = 0; first < cores.size();) {
      size_t last = first;
      while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
      devices += (first == 0 ? ":" : "+") + std::to_string(cores[first]);
      if (last > first) devices += "-" + std::to_string(cores[last]);
      first = last + 1;
    }
  }
  return text + devices;
}

}  // namespace

std::string describe(const Placement& placement) {
  if (placement.on_hosts) {
    return "target on hosts, " + describe(placement.target) +
           (placement.draft ? ", draft " + describe(*placement.draft) : "");
  }
  if (!placement.draft) return describe(placement.target) + ", both models sequentially";
  return "target " + describe(placement.target) + ", draft " + describe(*placement.draft) +
         (placement.sequential() ? ", sequentially" : "");
}

}  // namespace forerun
