// The files behind a checkpoint's tensors, and whether they have changed since they were mapped.
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

  // The first failure of MappedFile::check() over the files. May be called from any thread.
  Status check() const;

 private:
  std::vector<const MappedRange*> files_;  // each file once
};

}  // namespace forerun
