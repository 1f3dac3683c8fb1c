// The features of a pass's rows, as a trained head's kernels read them from the Step's data: the
// hidden row that each row starts from, in a place of the head's own store or of its target's.
#pragma once

#include <cstdint>

namespace forerun::cuda {

struct RowFeatureCuda {
  enum Source : int32_t {
    kNone,  // rows that only fill up the pass start from zeros
    kOwn,
    kTarget,
  };
  int32_t source = kNone;
  int32_t place = 0;
};

}  // namespace forerun::cuda
