// The features of a pass's rows in the Step's data, for a trained head's kernels: the hidden state
// that each row starts from, in a place of the head's own store or of its target's.
#pragma once

#include <cstdint>

namespace forerun::cuda {

struct RowFeatureCuda {
  enum Source : int32_t {
    kNone,  // padding rows of the pass start from zeros
    kOwn,
    kTarget,
  };
  int32_t source = kNone;
  int32_t place = 0;
};

}  // namespace forerun::cuda
