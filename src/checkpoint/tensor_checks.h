// Checks that a checkpoint's tensors are those that its config.json implies. Internal to
// checkpoint/.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/layouts/weight_parts.h"
#include "checkpoint/tensor_table.h"
#include "forerun/status.h"

namespace forerun {

// Checks that every implied tensor exists in a fitting shape and dtype, and that no layer has a
// tensor without a meaning (a bias or norm that would silently be ignored). Fills `parts` for
// layers with a weight in several tensors.
using PartsOfModules = std::map<std::pair<ModuleKind, int32_t>, WeightParts>;
Status check_tensors(const TensorTable& table, const ModelConfig& config, PartsOfModules& parts);

// Returns the target's token for each row of an EAGLE-3 head's LM head, from "d2t", which holds the
// tokens in GGUF files, else the distances from a row's number to its token. Empty if each row's
// number is its token.
Result<std::vector<int32_t>> read_draft_tokens(const TensorTable& table, const ModelConfig& config);

// Returns whether there is an lm_head.weight that is no copy of the embedding. Reads both until
// they differ.
bool has_head_of_its_own(const TensorTable& table);

// Returns a text such as "[4096][512]".
std::string shape_text(std::span<const int64_t> shape);

}  // namespace forerun
