// Files beside config.json in which quantizers for transformers before 4.35 described their work.
//
// All functions are pure.
#pragma once

#include <filesystem>

#include "checkpoint/model_config.h"
#include "forerun/status.h"

namespace forerun {

// Sets the quantization from quantize_config.json (GPTQ) or quant_config.json (AWQ) if config.json
// has none. If it has one, fails if these files contradict it. Returns kUnsupported for the
// description of an unsupported method.
Status read_old_quantization(const std::filesystem::path& dir, ModelConfig& config);

}  // namespace forerun
