// A folder with the measured costs of Steps, one small file for each key. One start measures them,
// later starts read them.
//
// Nothing here is fatal. A damaged file, a file of another version and a folder that cannot be
// written cause one line in the log and a new measurement. Files are replaced as a whole (written
// to a temporary name, then renamed), so processes that start at the same time may share a folder.
#pragma once

#include <filesystem>
#include <optional>

#include "planner/cost_file.h"
#include "step/step_costs.h"

namespace forerun {

class CostCache {
 public:
  // The folder need not exist. With an empty path nothing is found or kept.
  explicit CostCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  bool enabled() const { return !folder_.empty(); }
  // The file is named by a hash of the key; when it is read, the key inside it is compared.
  std::filesystem::path file_of(const CostKey& key) const;
  std::optional<StepCosts> find(const CostKey& key) const;
  // Makes the folder if there is none.
  void keep(const CostKey& key, const StepCosts& costs) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace forerun
