// What a backend reads in place of what the files store: which weights it enlarges, widens or
// rounds when it loads them, and what that costs. For start-up lines and `forerun inspect`. Of
// weights it reads no more than zeros and scales.
//
// Thread rules: pure functions.
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
  kEnlarged,  // the same, in a kernel format of more than 1.1 times the bytes of a layer's tensors
  kWidened,   // the same values as f32
  kRounded,   // other values
};

// "as stored", "enlarged", "widened", "rounded"
const char* weight_change_name(WeightChange change);

// How the weight of a module is read by one device that holds all of it, with activations in bf16.
struct ModuleRead {
  Module module;        // the head of tied embeddings is one, too
  std::string stored;   // "Q3_K"
  std::string read_as;  // "q3_k", "f32", "bf16"
  WeightChange change = WeightChange::kNone;
  // What is rounded on processors, and on GPUs to bf16, is rounded by requantize() to this format.
  std::optional<WeightFormat> rounded_to;
  int64_t stored_bytes = 0;  // bytes in the files; those of the embedding for a tied head
  // What it takes in memory beside the files' pages; 0 for a tied head that is read where the
  // embedding lies, and for an embedding that is looked up in a tied head.
  int64_t read_bytes = 0;
  bool is_tied_head = false;
};

// The modules of a stage, in the order of decoder_modules(). On GPUs only for weights that they
// accept: kAsStored and the overrides of the head.
std::vector<ModuleRead> module_reads(const Checkpoint& checkpoint, const LayerRange& stage,
                                     WeightOverride weights, bool on_gpus);

struct WidenedFormat {
  std::string stored;   // "Q3_K"
  std::string read_as;  // "f32", which holds the same values, or "bf16", which rounds them
  WeightChange change = WeightChange::kNone;
  int64_t stored_bytes = 0;
  int64_t read_bytes = 0;
};

// Sums of module_reads() over what changes, norms excepted. Empty where everything is read as it is
// stored.
std::vector<WidenedFormat> widened_formats(const Checkpoint& checkpoint, const LayerRange& stage,
                                           bool on_gpus,
                                           WeightOverride weights = WeightOverride::kAsStored);

// "Q3_K (1200 MB) is widened to f32 (9800 MB)"; one part for each format, joined by "; ".
std::string describe(const std::vector<WidenedFormat>& formats);

}  // namespace forerun
