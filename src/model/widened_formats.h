// The changes that a backend makes to stored weights at loading: it enlarges, widens or rounds some
// of them. Start-up lines and `forerun inspect` show them with their cost. These functions read no
// weights but zeros and scales.
//
// All functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/layer_range.h"
#include "model/weight_override.h"

namespace forerun {

enum class WeightChange : uint8_t {
  kNone,      // the same values, perhaps repacked
  kEnlarged,  // the same values, in a kernel format of more than 1.1 times the bytes of a layer's
              // tensors
  kWidened,   // the same values as f32
  kRounded,   // other values
};

// Returns "as stored", "enlarged", "widened" or "rounded".
const char* weight_change_name(WeightChange change);

// The format in which one device with a whole module reads its weight, with activations in bf16.
struct ModuleRead {
  Module module;        // the head of tied embeddings counts as a module
  std::string stored;   // "Q3_K"
  std::string read_as;  // "q3_k", "f32", "bf16"
  WeightChange change = WeightChange::kNone;
  // The format to which requantize() rounds the weight on CPUs, or on GPUs before it becomes bf16.
  std::optional<WeightFormat> rounded_to;
  int64_t stored_bytes = 0;  // bytes in the files; those of the embedding for a tied head
  // Memory beside the files' pages; 0 for a tied head that is read in place of the embedding, and
  // for an embedding that is looked up in a tied head.
  int64_t read_bytes = 0;
  bool is_tied_head = false;
};

// Returns the modules of a stage, in the order of decoder_modules(). On GPUs only for overrides
// that they support: kAsStored and those of the head.
std::vector<ModuleRead> module_reads(const Checkpoint& checkpoint, const LayerRange& stage,
                                     WeightOverride weights, bool on_gpus);

struct WidenedFormat {
  std::string stored;   // "Q3_K"
  std::string read_as;  // "f32", which holds the same values, or "bf16", which rounds them
  WeightChange change = WeightChange::kNone;
  int64_t stored_bytes = 0;
  int64_t read_bytes = 0;
};

// Sums up the module_reads() that change, without norms. Empty if everything is read as it is
// stored.
std::vector<WidenedFormat> widened_formats(const Checkpoint& checkpoint, const LayerRange& stage,
                                           bool on_gpus,
                                           WeightOverride weights = WeightOverride::kAsStored);

// Returns a text such as "Q3_K (1200 MB) is widened to f32 (9800 MB)"; each format has one part,
// joined by "; ".
std::string describe(const std::vector<WidenedFormat>& formats);

}  // namespace forerun
