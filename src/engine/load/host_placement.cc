#include "engine/load/host_placement.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "device/cpu/team.h"
#include "engine/load/stage_plan.h"
#include "hosts/hosts.h"

namespace forerun {

namespace {

// Returns this process's share of the machine's processors as a device name: an equal share with
// the other processes on the machine, or, if it has been given its own processors, all of those.
std::string own_processors(const LocalPlace& place) {
  const std::vector<int32_t> cores = available_cores();
  const auto count = static_cast<int32_t>(cores.size());
  int32_t first = place.rank % count;
  int32_t last = first;
  if (count >= place.ranks) {
    first = count * place.rank / place.ranks;
    last = count * (place.rank + 1) / place.ranks - 1;
  }
  std::string name;
  for (int32_t idx = first; idx <= last; ++idx) {
    name += (name.empty() ? "cpu:" : "+") + std::to_string(cores[static_cast<size_t>(idx)]);
  }
  return name;
}

}  // namespace

Result<Placement> place_on_hosts(const EngineOptions& options) {
  const int32_t stages = options.hosts->num_stages();
  const std::string processors_here = own_processors(options.hosts->place());
  std::string target = options.devices.empty() ? processors_here : options.devices;
  const auto groups = static_cast<int32_t>(std::count(target.begin(), target.end(), '/')) + 1;
  int32_t asked = stages_of(options);
  if (asked == 0) asked = groups > 1 ? groups : stages;
  if (asked != stages || (groups > 1 && groups != stages)) {
    return Status(StatusCode::kInvalidArgument,
                  "hosts: found " + std::to_string(stages + 1) + " processes for " +
                      std::to_string(groups > 1 ? groups : asked) +
                      " stages; accepted: one for each stage, and one for the text and the draft");
  }
  if (groups == 1) {
    const std::string each = target;
    for (int32_t stage = 1; stage < stages; ++stage) target += "/" + each;
  }
  FORERUN_ASSIGN_OR_RETURN(Placement placement, place_models(target, "", stages));
  placement.on_hosts = true;
  if (options.draft.empty()) return placement;
  FORERUN_ASSIGN_OR_RETURN(
      const Placement draft,
      place_models(options.draft_devices.empty() ? processors_here : options.draft_devices, "", 1));
  if (draft.target.num_stages() > 1) {
    return Status(StatusCode::kInvalidArgument,
                  "draft devices: found '" + options.draft_devices +
                      "'; accepted: one group, since a draft is not cut into stages");
  }
  placement.draft = draft.target;
  return placement;
}

}  // namespace forerun
