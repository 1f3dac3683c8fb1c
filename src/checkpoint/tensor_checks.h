// Whether a checkpoint's tensors are those that its config.json implies. Internal to checkpoint/.
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

// Every implied tensor is there in a fitting shape and dtype, and no layer holds a tensor that the
// description gives no meaning to (a bias or norm that would silently be left out). Fills `parts`
// for the layers whose weight several tensors store.
using PartsOfModules = std::map<std::pair<ModuleKind, int32_t>, WeightParts>;
Status check_tensors(const TensorTable& table, const ModelConfig& config, PartsOfModules& parts);

// The target's token for each row of an EAGLE-3 head's LM head, from "d2t": in GGUF files the
// tokens, else the distances from a row's number to its token's. Empty where every row has the
// token's number.
Result<std::vector<int32_t>> read_draft_tokens(const TensorTable& table, const ModelConfig& config);

// Whether there is an lm_head.weight that is no copy of the embedding. Reads both until they
// differ.
bool has_head_of_its_own(const TensorTable& table);

// "[4096][512]"
std::string shape_text(std::span<const int64_t> shape);

}  // namespace forerun
