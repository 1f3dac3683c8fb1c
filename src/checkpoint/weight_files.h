// The files behind a checkpoint's tensors, to be asked whether they are what they were.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/mapped_ranges.h"
#include "forerun/status.h"

namespace forerun {

class WeightFiles {
 public:
  WeightFiles() = default;
  // Those that hold tensors of the names for which `holds`. The checkpoint must outlive it.
  WeightFiles(const Checkpoint& checkpoint,
              const std::function<bool(std::string_view name)>& holds);

  // MappedFile::check() of each. From any thread.
  Status check() const;

 private:
  std::vector<const MappedRange*> files_;  // each once
};

}  // namespace forerun
