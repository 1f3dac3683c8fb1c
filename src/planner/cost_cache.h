// A folder of what Steps cost, one small file a key: what a start has measured the next ones read.
//
// Nothing here is ever fatal. A file that is damaged or of another version, and a folder that
// cannot be written, cost one line in the log and a measurement. Files are replaced as a whole
// (written beside, then renamed), so processes that start at the same time may share a folder.
#pragma once

#include <filesystem>
#include <optional>

#include "planner/cost_file.h"
#include "step/step_costs.h"

namespace forerun {

class CostCache {
 public:
  // The folder need not be there. An empty path: no cache, nothing is found or kept.
  explicit CostCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  bool enabled() const { return !folder_.empty(); }
  // By a hash of the key; the file's own key is compared.
  std::filesystem::path file_of(const CostKey& key) const;
  std::optional<StepCosts> find(const CostKey& key) const;
  // Makes the folder where there is none.
  void keep(const CostKey& key, const StepCosts& costs) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace forerun
