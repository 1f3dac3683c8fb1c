// A checkpoint that retrieves text: two layers of attention with constructed, not trained weights,
// which continue a passage as it continued the last time (an induction head; Olsson et al., 2022).
// The demo models are too small for that, and with a model that does not retrieve, views cannot be
// told apart by tokens far back.
//
// Layer 0 copies the token before into each row. Layer 1 looks for rows whose copy is the present
// token, and says what stood there. Queries of one topic find each other's tokens too, less so: the
// tokens below kFillerTokens are filler, which has no topic, those above are all of one.
#pragma once

#include <cstdint>
#include <filesystem>

#include "forerun/status.h"

namespace forerun::testing {

inline constexpr int32_t kFillerTokens = 64;
inline constexpr int32_t kTopicTokens = 192;  // ids behind the filler's

// f32, a context of 4,096, with a tokenizer of bytes.
Status write_induction_model(const std::filesystem::path& dir);

}  // namespace forerun::testing
