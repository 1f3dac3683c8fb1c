// Root-mean-square normalization: y = x / sqrt(mean(x²) + eps) * weight, over a row of the residual
// stream or over an attention head.
//
// The squares are added in 16 fixed lanes, then the lanes in a fixed tree, in plain C++ that no
// compiler may reorder. So the bits are the same in every build and for every team size.
#pragma once

#include <cstdint>
#include <span>

#include "base/tensor_view.h"
#include "device/cpu/team.h"

namespace forerun {

// Normalizes one row of weight.size() elements; y may be x.
void rms_norm_row(const float* x, std::span<const float> weight, float eps, float* y);

// Collective: y [rows][dim] from x [rows][dim]; members take whole rows. y may be x.
void rms_norm(const Team& team, MatrixView<const float> x, std::span<const float> weight, float eps,
              MatrixView<float> y);

// Reference implementation in double. Single-threaded.
void rms_norm_ref(MatrixView<const float> x, std::span<const float> weight, float eps,
                  MatrixView<float> y);

}  // namespace forerun
