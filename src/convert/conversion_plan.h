// Which tensors an output gets, and in which formats.
//
// Thread rules: pure functions. The checkpoint must outlive the plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "convert/convert.h"
#include "convert/directory_description.h"
#include "convert/tensor_job.h"
#include "forerun/status.h"

namespace forerun {

struct ConversionPlan {
  std::vector<std::unique_ptr<TensorJob>> jobs;  // in the order of the output
  DirectoryFormat directory;                     // where the output is a directory
  std::vector<std::string> notes;
  int num_weights = 0;  // weights of embedding, linear layers and head
  int num_kept = 0;     // those of them whose rows are copied bit for bit

  uint64_t bytes() const;  // bytes of all outputs
};

// kInvalidArgument where the kind of output does not hold a format that was asked for.
Result<ConversionPlan> plan_conversion(const Checkpoint& input, bool is_gguf,
                                       const ConvertOptions& options);

}  // namespace forerun
