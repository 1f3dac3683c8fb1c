// Keeps the measurements of the arms of `auto` beside the costs of Steps, for later starts with the
// same costs and the same arms.
//
// No failure here is fatal. A damaged file, a file of another version and a folder that cannot be
// written cause one line in the log.
//
// Thread rules: one thread at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/keyed_folder.h"
#include "planner/measured_arms.h"

namespace forerun {

class ArmStore {
 public:
  // `key`: the key of the costs of Steps, with all facts that define the arms. `arms`: their names,
  // in order; the last `num_candidates` are views.
  ArmStore(KeyedFolder folder, CostKey key, const std::vector<std::string>& arms,
           size_t num_candidates);

  std::filesystem::path file() const { return folder_.file_of(key_); }
  // Returns the measurements kept last, with as many arms and candidates as given to the
  // constructor.
  std::optional<MeasuredArms> find() const;
  // Writes the measurements in well under a millisecond. After a failure, which is logged, does
  // nothing.
  void keep(const MeasuredArms& measured);

 private:
  const KeyedFolder folder_;
  CostKey key_;
  const size_t num_arms_;
  const size_t num_candidates_;
  bool has_failed_ = false;
};

}  // namespace forerun
