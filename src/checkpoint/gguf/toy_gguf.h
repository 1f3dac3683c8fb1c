// Toy checkpoints as GGUF files, for tests (forerun_checkpoint_testing).
#pragma once

#include "checkpoint/gguf/gguf_rig.h"
#include "checkpoint/testing.h"

namespace forerun {

// Returns the metadata and tensors of toy_tensors(spec), without a tokenizer. `spec.family` must be
// llama, qwen2 or qwen3, and its dtype kF32. Linear layers, embedding and head take
// spec.gguf_formats in turn, each with random blocks about as large as the weights that they
// replace; without formats everything is f32 and has the spec's weights. An EAGLE-3 head has the
// layout of llama.cpp's converter, and the spec gives its taps.
//
// A quarter of spec.perturbation is the share of blocks that are drawn anew.
GgufRig toy_gguf(const ToySpec& spec);

}  // namespace forerun
