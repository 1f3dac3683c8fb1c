// The plan of a conversion: the tensors of the output and their formats.
//
// All functions are pure. The checkpoint must outlive the plan.
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
  std::vector<std::unique_ptr<TensorJob>> jobs;  // in output order
  DirectoryFormat directory;                     // for an output directory
  std::vector<std::string> notes;
  int num_weights = 0;  // weights of embedding, linear layers and head
  int num_kept = 0;     // weights among them with rows copied bit for bit

  uint64_t bytes() const;  // bytes of all outputs
};

// Plans a conversion. Returns kInvalidArgument if the kind of output cannot hold a requested
// format.
Result<ConversionPlan> plan_conversion(const Checkpoint& input, bool is_gguf,
                                       const ConvertOptions& options);

}  // namespace forerun
