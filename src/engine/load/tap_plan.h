// Decides which hidden states the models keep for a trained head (model/tap_store.h), and how many.
#pragma once

#include <cstdint>

#include "engine/load/models_to_load.h"
#include "model/layer_range.h"
#include "model/tap_store.h"
#include "step/types.h"

namespace forerun {

// Returns what the role's stage of these layers keeps: the target keeps the hidden states that the
// head reads as features, the head those that its further guesses start from. Empty if the draft is
// not a trained head.
TapOptions planned_taps(const ModelsToLoad& models, Role role, const LayerRange& layers);

// Returns the bytes of the store on the first device of the role's stage of these layers.
int64_t tap_bytes(const ModelsToLoad& models, Role role, const LayerRange& layers);

}  // namespace forerun
