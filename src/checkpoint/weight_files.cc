#include "checkpoint/weight_files.h"

#include <algorithm>

#include "base/status_macros.h"

namespace forerun {

WeightFiles::WeightFiles(const Checkpoint& checkpoint,
                         const std::function<bool(std::string_view name)>& holds) {
  for (const RawTensor& tensor : checkpoint.tensors()) {
    if (tensor.bytes.empty() || !holds(tensor.name)) continue;
    const MappedRange* const file = MappedRange::find(tensor.bytes.data());
    if (file == nullptr || std::find(files_.begin(), files_.end(), file) != files_.end()) continue;
    files_.push_back(file);
  }
}

Status WeightFiles::check() const {
  for (const MappedRange* const file : files_) FORERUN_RETURN_IF_ERROR(file->check());
  return {};
}

}  // namespace forerun
