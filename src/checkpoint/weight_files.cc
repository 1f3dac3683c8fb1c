#include "checkpoint/weight_files.h"

#include <algorithm>

#include "base/status_macros.h"

namespace forerun {

WeightFiles::WeightFiles(const Checkpoint& checkpoint, const std::function<bool(ModuleId)>& holds) {
  for (const Module& module : decoder_modules(checkpoint.config())) {
    if (!holds(module.id)) continue;
    for (const ModuleTensor& each : checkpoint.tensors_of(module.id)) {
      if (each.tensor->bytes.empty()) continue;
      const MappedRange* const file = MappedRange::find(each.tensor->bytes.data());
      if (file == nullptr || std::find(files_.begin(), files_.end(), file) != files_.end())
        continue;
      files_.push_back(file);
    }
  }
}

Status WeightFiles::check() const {
  for (const MappedRange* const file : files_) FORERUN_RETURN_IF_ERROR(file->check());
  return {};
}

}  // namespace forerun
