#include "model/head_ports.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"

namespace forerun {

Status refuse_head(const std::string& found, const std::string& accepted) {
  return {StatusCode::kInvalidArgument, "EAGLE-3 head: found " + found + "; accepted: " + accepted};
}

Status check_head_ports(const ModelConfig& head, const LayerRange& layers, const TapOptions& own,
                        const HeadTarget& target) {
  if (layers != LayerRange::all(head)) return refuse_head(describe(layers, head), "all layers");
  FORERUN_ASSIGN_OR_RETURN(const std::vector<int32_t> wanted, fit_eagle3(head, target.config));
  if (!std::equal(wanted.begin(), wanted.end(), target.taps.begin(), target.taps.end()) ||
      target.tap_width != head.eagle3->target_hidden_size) {
    return refuse_head("other taps of the target", "those that fit_eagle3() names");
  }
  if (!own.after_layers.empty() && own.after_layers != std::vector<int32_t>{head.num_layers}) {
    return refuse_head(
        "a tap of its own after " + std::to_string(own.after_layers.front()) + " layers",
        "one, after all " + std::to_string(head.num_layers));
  }
  return {};
}

}  // namespace forerun
