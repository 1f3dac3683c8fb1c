// `forerun inspect`: the stored formats, the formats that processors and GPUs use instead, and the
// distance of rounded weights from the stored ones.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"
#include "model/weight_override.h"

namespace forerun::app {

// One module, or all modules of a kind that are stored and read alike.
struct ModuleRow {
  std::string modules;          // "self_attn.q_proj"; the whole name of a single module
  std::vector<int32_t> layers;  // ascending; empty for a module outside the layers
  std::string stored;
  int64_t stored_bytes = 0;  // 0 for a tied head, since the embedding's count
  struct Read {
    std::string format;  // empty: refused
    std::string change;  // weight_change_name()
    int64_t bytes = 0;
  };
  Read processors, gpus;
};

// Returns one row per module with `each_module`, otherwise one per kind.
std::vector<ModuleRow> module_rows(const Checkpoint& checkpoint, WeightOverride weights,
                                   bool each_module);
// Returns the rows with their sums, for people.
std::string module_table(const std::vector<ModuleRow>& rows);
nlohmann::ordered_json to_json(const std::vector<ModuleRow>& rows);

// The modules of a kind that are rounded alike.
struct ErrorRow {
  std::string modules;
  std::string stored, rounded_to;
  double relative = 0;  // Frobenius norm of the error over that of the weights
  double largest = 0;   // the largest |rounded - stored|
  std::string worst;    // the module with the largest relative error
  double worst_relative = 0;
};

// Returns the errors of the weights that processors round with `weights`; with
// WeightOverride::kAsStored of those that GPUs round to bf16. Reads every rounded weight, with a
// progress bar.
Result<std::vector<ErrorRow>> rounding_errors(const Checkpoint& checkpoint, WeightOverride weights);
std::string error_table(const std::vector<ErrorRow>& rows);
nlohmann::ordered_json to_json(const std::vector<ErrorRow>& rows);

}  // namespace forerun::app
