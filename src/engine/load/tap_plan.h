// Which hidden states the models keep for a trained head (model/tap_store.h), and how many.
#pragma once

#include <cstdint>

#include "engine/load/models_to_load.h"
#include "model/layer_range.h"
#include "model/tap_store.h"
#include "step/types.h"

namespace forerun {

// What the role's stage of these layers keeps: of the target, what the head reads as features; of
// the head, what its further guesses start from. None where the draft is no head.
TapOptions planned_taps(const ModelsToLoad& models, Role role, const LayerRange& layers);

// Bytes of the store on the first device of the role's stage of these layers.
int64_t tap_bytes(const ModelsToLoad& models, Role role, const LayerRange& layers);

}  // namespace forerun
