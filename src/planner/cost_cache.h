// A folder with the measured costs of Steps, one small file per key. One start measures them, later
// starts read them.
//
// No failure here is fatal. A damaged file, a file of another version and a folder that cannot be
// written cause one line in the log and a new measurement.
#pragma once

#include <filesystem>
#include <optional>

#include "planner/cost_file.h"
#include "planner/keyed_folder.h"
#include "step/step_costs.h"

namespace forerun {

class CostCache {
 public:
  // The folder need not exist. With an empty path nothing is found or kept.
  explicit CostCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  bool enabled() const { return folder_.enabled(); }
  std::filesystem::path file_of(const CostKey& key) const { return folder_.file_of(key); }
  std::optional<StepCosts> find(const CostKey& key) const;
  // Stores the costs under `key`; creates the folder if there is none.
  void keep(const CostKey& key, const StepCosts& costs) const;

 private:
  KeyedFolder folder_;
};

}  // namespace forerun
