#include "kernels/rope/rope.h"

#include <sys/mman.h>

#include <cmath>
#include <string>
#include <utility>

namespace forerun {

RopeTable::~RopeTable() {
  if (data_ != nullptr) munmap(data_, reserved_bytes_);
}

RopeTable::RopeTable(RopeTable&& other) noexcept { *this = std::move(other); }

RopeTable& RopeTable::operator=(RopeTable&& other) noexcept {
  std::swap(frequencies_, other.frequencies_);
  std::swap(half_, other.half_);
  std::swap(max_position_, other.max_position_);
  std::swap(reserved_bytes_, other.reserved_bytes_);
  std::swap(data_, other.data_);
  return *this;
}

Result<RopeTable> RopeTable::create(RopeFrequencies frequencies, int32_t max_position) {
  RopeTable table;
  table.half_ = static_cast<int64_t>(frequencies.frequencies.size());
  table.max_position_ = max_position;
  table.frequencies_ = std::move(frequencies);
  table.reserved_bytes_ =
      static_cast<size_t>(table.half_) * 2 * sizeof(float) * static_cast<size_t>(max_position);
  if (table.reserved_bytes_ == 0) return table;
  void* memory = mmap(nullptr, table.reserved_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return Status(StatusCode::kResourceExhausted,
                  "rotary table: cannot reserve " + std::to_string(table.reserved_bytes_) +
                      " bytes of address space for " + std::to_string(max_position) + " positions");
  }
  table.data_ = static_cast<float*>(memory);
  return table;
}

void RopeTable::prepare(int32_t position) {
  float* values = row(position);
  // New memory is zero, and no angle has both a zero cosine and a zero sine, so other values mean a
  // prepared row.
  if (half_ == 0 || values[0] != 0.0f || values[half_] != 0.0f) return;
  for (int64_t index = 0; index < half_; ++index) {
    const double angle = position * frequencies_.frequencies[static_cast<size_t>(index)];
    values[index] = static_cast<float>(std::cos(angle) * frequencies_.magnitude);
    values[half_ + index] = static_cast<float>(std::sin(angle) * frequencies_.magnitude);
  }
}

void rope_head(float* x, const float* cosines, const float* sines, int64_t half) {
  for (int64_t index = 0; index < half; ++index) {
    const float low = x[index];
    const float high = x[index + half];
    x[index] = low * cosines[index] - high * sines[index];
    x[index + half] = high * cosines[index] + low * sines[index];
  }
}

void rope(const Team& team, const RopeTable& table, std::span<const int32_t> positions,
          int64_t head_dim, MatrixView<float> x) {
  const WorkRange share = team.share(x.dim(0));
  for (int64_t row = share.begin; row < share.end; ++row) {
    const int32_t position = positions[static_cast<size_t>(row)];
    for (int64_t begin = 0; begin < x.dim(1); begin += head_dim) {
      rope_head(x.row(row) + begin, table.cosines(position), table.sines(position), head_dim / 2);
    }
  }
}

}  // namespace forerun
