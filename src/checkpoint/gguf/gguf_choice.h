// The choice of a GGUF file in a directory, which often holds a model in several quantizations.
#pragma once

#include <filesystem>
#include <string_view>

#include "forerun/status.h"

namespace forerun {

// Returns `dir` itself if neither it nor its folders hold a GGUF file, or if it has a config.json
// and `quantization` is empty. Otherwise returns the file that fits `quantization` best (case does
// not matter), among those in `dir` and in its folders ("Q8_0/Model-Q8_0-00001-of-00002.gguf"):
//
//   1. the quantization ends the name, or is the name of the folder: "Model-Q4_K_M.gguf"
//   2. as 1, of a dynamic quantization: "Model-UD-Q4_K_M.gguf"
//   3. it stands within the name, between '-', '.' or the ends: "Model-Q4_K_M-v2.gguf"
//   4. it ends the name behind '_': "Model_Q4_K_M.gguf", and "K_M" in "Model-Q4_K_M.gguf"
//
// A split model counts once, by the first of its existing parts. Files that are no model by
// themselves (mmproj, imatrix) and hidden folders do not count. Returns kNotFound or
// kInvalidArgument, with the existing files, if none fits or several fit equally well.
Result<std::filesystem::path> choose_gguf(const std::filesystem::path& dir,
                                          std::string_view quantization);

}  // namespace forerun
