// Files beside config.json in which quantizers before transformers 4.35 described their work.
//
// Thread rules: pure functions.
#pragma once

#include <filesystem>

#include "checkpoint/model_config.h"
#include "forerun/status.h"

namespace forerun {

// Where config.json has no quantization, sets it from quantize_config.json (GPTQ) or
// quant_config.json (AWQ). Where it has one, fails if these files say something else of the same
// field. kUnsupported for the description of a method that is not read.
Status read_old_quantization(const std::filesystem::path& dir, ModelConfig& config);

}  // namespace forerun
