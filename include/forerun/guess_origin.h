// The origin of a draft token.
#pragma once

#include <cstdint>

namespace forerun {

enum class GuessOrigin : uint8_t {
  kModel,   // the draft model
  kSource,  // a source without a model, which uses the text so far
  kBoth,    // both of them
  kSelf,    // the target, through a view of its own KV
};

// Returns "model", "source", "both" or "self".
constexpr const char* guess_origin_name(GuessOrigin origin) {
  switch (origin) {
    case GuessOrigin::kModel:
      break;
    case GuessOrigin::kSource:
      return "source";
    case GuessOrigin::kBoth:
      return "both";
    case GuessOrigin::kSelf:
      return "self";
  }
  return "model";
}

}  // namespace forerun
