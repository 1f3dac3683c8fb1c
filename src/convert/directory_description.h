// The JSON files of a checkpoint directory that `forerun convert` writes.
//
// All functions are pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/checkpoint.h"
#include "forerun/status.h"

namespace forerun {

// The formats of a directory's weights.
struct DirectoryFormat {
  DType dtype = DType::kBf16;  // type of all weights that are not quantized
  int32_t awq_group_size = 0;  // 0 if no weight is quantized
  // Modules that AWQ does not quantize, besides the head.
  std::vector<std::string> kept_modules = {};
};

// Returns names and contents of config.json, generation_config.json, tokenizer.json and the like.
// An input directory's files are copied, with the new dtype and quantization; a GGUF file's
// metadata are translated. Returns kUnsupported if such files cannot describe the model.
Result<std::vector<std::pair<std::string, std::string>>> describe_in_directory(
    const Checkpoint& input, const DirectoryFormat& format);

}  // namespace forerun
