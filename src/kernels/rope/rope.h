// Rotary position embedding, in the convention that pairs dimension i with i + head_dim / 2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor_view.h"
#include "device/cpu/team.h"
#include "forerun/status.h"

namespace forerun {

// The angles of a position are position * frequencies[i], i < head_dim / 2, in radians. Rotated
// vectors are multiplied by `magnitude` (YaRN's attention factor; otherwise 1).
struct RopeFrequencies {
  std::vector<double> frequencies;
  double magnitude = 1.0;
};

// Cosines and sines by position, computed in double when a position is first prepared. The table
// reserves address space for all positions, but memory only for prepared positions.
//
// One thread may call prepare() at a time; afterwards any number of threads may call the accessors.
class RopeTable {
 public:
  RopeTable() = default;
  ~RopeTable();
  RopeTable(RopeTable&& other) noexcept;
  RopeTable& operator=(RopeTable&& other) noexcept;

  // Creates a table for positions 0 to max_position - 1.
  static Result<RopeTable> create(RopeFrequencies frequencies, int32_t max_position);

  int32_t max_position() const { return max_position_; }
  void prepare(int32_t position);
  // Return [head_dim / 2], already multiplied by the magnitude. Valid only after prepare(position).
  const float* cosines(int32_t position) const { return row(position); }
  const float* sines(int32_t position) const { return row(position) + half_; }

 private:
  float* row(int32_t position) const { return data_ + static_cast<int64_t>(position) * 2 * half_; }

  RopeFrequencies frequencies_;
  int64_t half_ = 0;
  int32_t max_position_ = 0;
  size_t reserved_bytes_ = 0;
  float* data_ = nullptr;
};

// Rotates one head [2 * half] in place.
void rope_head(float* x, const float* cosines, const float* sines, int64_t half);

// Collective: rotates every head of x [rows][num_heads * head_dim] in place; members take rows.
void rope(const Team& team, const RopeTable& table, std::span<const int32_t> positions,
          int64_t head_dim, MatrixView<float> x);

// Reference implementation in double, from the frequencies. Single-threaded.
void rope_ref(const RopeFrequencies& frequencies, std::span<const int32_t> positions,
              MatrixView<float> x);

}  // namespace forerun
