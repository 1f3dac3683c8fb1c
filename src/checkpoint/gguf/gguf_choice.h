// The GGUF file that is meant in a directory, which often holds a model in several quantizations.
#pragma once

#include <filesystem>
#include <string_view>

#include "forerun/status.h"

namespace forerun {

// `dir` itself where it holds no GGUF file, or has a config.json and `quantization` is empty. Else
// the only file whose name ends with `quantization` ("q4_k_m" finds "Model-Q4_K_M.gguf"), or the
// only file where that is empty. Parts of a split model count once, and files that begin with
// "mmproj", which belong to other models, do not count. kNotFound or kInvalidArgument, with the
// files that there are, where none or several fit.
Result<std::filesystem::path> choose_gguf(const std::filesystem::path& dir,
                                          std::string_view quantization);

}  // namespace forerun
