// The JSON files of a checkpoint directory that is made from a checkpoint.
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/checkpoint.h"
#include "forerun/status.h"

namespace forerun {

// How the weights of the directory are stored.
struct DirectoryFormat {
  DType dtype = DType::kBf16;  // type of what is not quantized
  int32_t awq_group_size = 0;  // 0: nothing is quantized
  // Besides the head: modules that AWQ leaves alone.
  std::vector<std::string> kept_modules = {};
};

// Names and texts of config.json, generation_config.json, tokenizer.json and the like. Those of a
// directory are its own, with another dtype and quantization; those of a GGUF file are written from
// its metadata. kUnsupported where they could not describe the model.
Result<std::vector<std::pair<std::string, std::string>>> describe_in_directory(
    const Checkpoint& input, const DirectoryFormat& format);

}  // namespace forerun
