// The files of a checkpoint's tensors, with a check that they have not changed since they were
// mapped.
#pragma once

#include <functional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/mapped_ranges.h"
#include "forerun/status.h"

namespace forerun {

class WeightFiles {
 public:
  WeightFiles() = default;
  // Covers the files with a tensor of a module for which `holds` returns true. The checkpoint must
  // outlive this object.
  WeightFiles(const Checkpoint& checkpoint, const std::function<bool(ModuleId)>& holds);

  // Returns the first failure of MappedFile::check() among the files. Any thread may call it.
  Status check() const;

 private:
  std::vector<const MappedRange*> files_;  // each file once
};

}  // namespace forerun
