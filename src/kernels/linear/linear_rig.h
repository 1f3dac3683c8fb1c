// A rig for tests of linear layers: weights of every format that end at an unreadable page,
// matrices surrounded by NaNs, and a comparator that handles NaN.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/linear/formats/grouped.h"
#include "kernels/linear/formats/grouped_packer.h"
#include "kernels/linear/formats/integer_packer.h"
#include "kernels/linear/formats/weight_formats.h"
#include "kernels/linear/linear.h"

namespace forerun {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline const std::vector<WeightFormat> kFormats = [] {
  std::vector<WeightFormat> formats;
  for (const WeightFormatInfo& info : weight_format_table()) formats.push_back(info.format);
  return formats;
}();
inline constexpr Activation kActivations[] = {Activation::kF32, Activation::kBf16,
                                              Activation::kInt8};

// Returns whether this CPU's kernels support the combination.
inline bool is_there(WeightFormat format, Activation activation) {
  return format != WeightFormat::kBf16Pairs || takes_bf16_pairs(activation);
}

inline bool is_integer(WeightFormat format) {
  return weight_format_info(format).kind == WeightKind::kIntegers;
}

// Returns whether the numbers are equal up to `tolerance`. NaN only equals NaN, an infinity only
// itself.
inline bool close(float actual, float expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::fabs(static_cast<double>(actual) - static_cast<double>(expected)) <= tolerance;
}

// Bytes that end at an unreadable page: an overrun of one element faults.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t body = (bytes + page - 1) / page * page;
    mapped_ = body + page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + body, page, PROT_NONE);
    data_ = base_ + body - bytes;
  }
  ~GuardedBytes() { munmap(base_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  size_t mapped_ = 0;
};

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  float normal() { return normal_(engine_); }
  uint32_t bits() { return static_cast<uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
  std::normal_distribution<float> normal_{0.0f, 1.0f};
};

template <class T>
T narrow(float value) {
  if constexpr (std::is_same_v<T, bf16>) return to_bf16(value);
  if constexpr (std::is_same_v<T, f16>) return to_f16(value);
  if constexpr (std::is_same_v<T, float>) return value;
}

// A weight and the memory that it views.
struct TestWeight {
  std::unique_ptr<GuardedBytes> memory;
  LinearWeight weight;
};

// Rows lie 3 elements apart with NaNs between them; the last row ends at the guard page.
template <class T>
TestWeight make_view(int64_t out, int64_t in, Random& random) {
  const int64_t stride = in + 3;
  const int64_t count = out * stride - 3;
  TestWeight made;
  made.memory = std::make_unique<GuardedBytes>(static_cast<size_t>(count) * sizeof(T));
  T* data = reinterpret_cast<T*>(made.memory->data());
  for (int64_t idx = 0; idx < count; ++idx) {
    data[idx] = narrow<T>(idx % stride < in ? random.normal() : kNan);
  }
  made.weight = LinearWeight::view(MatrixView<const T>(data, {out, in}, stride));
  return made;
}

inline TestWeight make_int4(int64_t out, int64_t in, int64_t group, Random& random) {
  std::vector<int32_t> qweight(static_cast<size_t>(in * out / 8));
  std::vector<int32_t> qzeros(static_cast<size_t>(in / group * out / 8));
  std::vector<float> scales(static_cast<size_t>(in / group * out));
  for (int32_t& word : qweight) word = static_cast<int32_t>(random.bits());
  for (int32_t& word : qzeros) word = static_cast<int32_t>(random.bits());
  for (float& scale : scales) scale = to_float(to_f16(0.1f * (1.0f + std::fabs(random.normal()))));
  TestWeight made;
  made.weight =
      LinearWeight::from_awq(MatrixView<const int32_t>(qweight.data(), {in, out / 8}),
                             MatrixView<const int32_t>(qzeros.data(), {in / group, out / 8}),
                             MatrixView<const float>(scales.data(), {in / group, out}), group);
  return made;
}

// Makes an FP8 weight. Rows of codes lie 3 apart with NaNs between them; the last row ends at the
// guard page. The blocks that share a scale depend on `random`.
inline TestWeight make_fp8(int64_t out, int64_t in, Random& random) {
  const int64_t stride = in + 3;
  const int64_t count = out * stride - 3;
  TestWeight made;
  made.memory = std::make_unique<GuardedBytes>(static_cast<size_t>(count));
  auto* codes = reinterpret_cast<uint8_t*>(made.memory->data());
  for (int64_t idx = 0; idx < count; ++idx) {
    const auto code = static_cast<uint8_t>(random.bits());
    const bool is_nan = (code & 0x7f) == 0x7f;
    codes[idx] = idx % stride < in ? static_cast<uint8_t>(code - (is_nan ? 1 : 0)) : 0x7f;
  }
  const int64_t block_out = random.bits() % 2 == 0 ? 1 : random.bits() % 2 == 0 ? 16 : 128;
  const int64_t block_in = random.bits() % 2 == 0 ? 128 : random.bits() % 2 == 0 ? 32 : in;
  const int64_t rows = (out + block_out - 1) / block_out;
  const int64_t cols = (in + block_in - 1) / block_in;
  std::vector<float> scales(static_cast<size_t>(rows * cols));
  for (float& scale : scales) scale = 0.01f * random.normal();
  made.weight = LinearWeight::view_fp8(
                    MatrixView<const uint8_t>(codes, {out, in}, stride),
                    {MatrixView<const float>(scales.data(), {rows, cols}), block_out, block_in})
                    .value();
  return made;
}

// Returns random integers that depend on `seed`. Zeros are below `zero_count`; 0 for none.
inline GroupedIntegers random_integers(int bits, int64_t group, DType scale_type,
                                       int32_t zero_count, uint32_t seed) {
  const auto hash = [seed](int64_t a, int64_t b, uint32_t salt) {
    uint32_t state = seed + salt + static_cast<uint32_t>(a * 40503 + b) * 2654435761u;
    state = (state ^ (state >> 16)) * 0x45d9f3bu;
    return (state ^ (state >> 16)) * 0x45d9f3bu >> 12;
  };
  GroupedIntegers source;
  source.bits = bits;
  source.group = group;
  source.scale_type = scale_type;
  source.has_short_scales = scale_type != DType::kF32;
  source.quants = [=](int64_t first, MatrixView<uint8_t> q) {
    for (int64_t out = 0; out < q.dim(0); ++out) {
      for (int64_t in = 0; in < q.dim(1); ++in) {
        q.row(out)[in] = static_cast<uint8_t>(hash(first + out, in, 1) % (1u << bits));
      }
    }
  };
  source.scales = [=](int64_t out, std::span<float> scales) {
    int64_t at = 0;
    for (float& scale : scales) {
      const float value = static_cast<float>(hash(out, at++, 2) % 4096 + 1) * 1e-5f;
      scale = scale_type == DType::kF16    ? to_float(to_f16(value))
              : scale_type == DType::kBf16 ? round_to_bf16(value)
                                           : value;
    }
  };
  if (zero_count > 0) {
    source.zeros = [=](int64_t out, std::span<int16_t> zeros) {
      int64_t at = 0;
      for (int16_t& zero : zeros) {
        zero = static_cast<int16_t>(hash(out, at++, 3) % static_cast<uint32_t>(zero_count));
      }
    };
  }
  return source;
}

inline TestWeight make_int8_groups(int64_t out, int64_t in, int64_t group, Random& random) {
  const bool whole = group > 0 && group % 32 == 0 && in % group == 0;
  const DType type = random.bits() % 2 == 0 ? DType::kF16 : DType::kBf16;
  TestWeight made;
  made.weight = LinearWeight::pack_integers(
                    out, in, random_integers(8, whole ? group : in, type, 257, random.bits()))
                    .value();
  return made;
}

// Returns `in` rounded up to a number of inputs that the format can have: whole blocks.
inline int64_t whole_blocks(WeightFormat format, int64_t in) {
  if (!is_grouped(format)) return in;
  return round_up(in, block_inputs(grouped_format(format)));
}

// Returns a block of a grouped format that depends on `seed`, the channel and the block.
inline GroupedBlock random_block(const GroupedFormat& format, uint32_t seed, int64_t out,
                                 int64_t block) {
  Random random(seed + static_cast<uint32_t>(out * 65537 + block));
  GroupedBlock made = {};
  for (uint8_t& q : made.q) q = static_cast<uint8_t>(random.bits() >> (32 - format.bits));
  const auto half = [&random](float size) {
    const float magnitude = size * (1.0f + std::fabs(random.normal()));
    return std::bit_cast<uint16_t>(to_f16(random.bits() % 3 == 0 ? -magnitude : magnitude));
  };
  made.d = half(0.01f);
  made.dmin = half(0.02f);
  if (format.scale == GroupScale::kBf16) {
    made.d = std::bit_cast<uint16_t>(to_bf16(0.01f * random.normal()));
  }
  if (format.scale == GroupScale::kE8m0) made.d = static_cast<uint16_t>(118 + random.bits() % 10);
  const bool nibbles = format.scale == GroupScale::kNibbles;
  for (int group = 0; group < 16; ++group) {
    // Scales may be zero or negative; a minimum is not negative.
    made.scale[group] =
        static_cast<int8_t>(nibbles ? random.bits() % 16 : random.bits() % 128 - 64);
    made.min[group] = static_cast<int8_t>(random.bits() % (nibbles ? 16 : 64));
    if (random.bits() % 8 == 0) made.scale[group] = made.min[group] = 0;
  }
  return made;
}

inline TestWeight make_grouped(WeightFormat format, int64_t out, int64_t in, Random& random) {
  const uint32_t seed = random.bits();
  const GroupedFormat& grouped = grouped_format(format);
  TestWeight made;
  made.weight = LinearWeight::pack_grouped(
      format, out, in, [&](int64_t channel, int64_t block, std::span<GroupedBlock> to) {
        for (GroupedBlock& at : to) at = random_block(grouped, seed, channel, block++);
      });
  return made;
}

inline TestWeight make_weight(WeightFormat format, int64_t out, int64_t in, int64_t group,
                              Random& random) {
  switch (format) {
    case WeightFormat::kF32:
      return make_view<float>(out, in, random);
    case WeightFormat::kBf16:
      return make_view<bf16>(out, in, random);
    case WeightFormat::kF16:
      return make_view<f16>(out, in, random);
    case WeightFormat::kInt4:
      return make_int4(out, in, group, random);
    case WeightFormat::kFp8:
      return make_fp8(out, in, random);
    case WeightFormat::kInt8Groups:
      return make_int8_groups(out, in, group, random);
    case WeightFormat::kBf16Pairs: {
      const TestWeight source = make_view<bf16>(out, in, random);
      const int64_t stride = in + 3;
      const MatrixView<const bf16> rows(reinterpret_cast<const bf16*>(source.memory->data()),
                                        {out, in}, stride);
      return {nullptr, LinearWeight::pair_bf16(rows)};
    }
    default:
      break;
  }
  if (is_grouped(format)) return make_grouped(format, out, in, random);
  std::vector<float> w(static_cast<size_t>(out * in));
  for (float& value : w) value = random.normal();
  TestWeight made;
  made.weight = LinearWeight::quantize_int8(MatrixView<const float>(w.data(), {out, in}));
  return made;
}

// A matrix surrounded by NaNs: rows are `stride` apart, with NaNs before, between and after them.
struct PaddedMatrix {
  PaddedMatrix(int64_t rows, int64_t cols)
      : row_count(rows),
        col_count(cols),
        stride(cols + 5),
        cells(static_cast<size_t>(rows * stride + 7), kNan) {}
  MatrixView<float> view() { return {cells.data() + 7, {row_count, col_count}, stride}; }
  bool padding_is_untouched() const {
    for (size_t idx = 0; idx < cells.size(); ++idx) {
      const int64_t at = static_cast<int64_t>(idx) - 7;
      if (at >= 0 && at % stride < col_count) continue;
      if (!std::isnan(cells[idx])) return false;
    }
    return true;
  }
  int64_t row_count;
  int64_t col_count;
  int64_t stride;
  std::vector<float> cells;
};

inline PaddedMatrix random_input(int64_t rows, int64_t in, Random& random) {
  PaddedMatrix x(rows, in);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < in; ++k) x.view().row(row)[k] = random.normal();
    x.view().row(row)[row % in] *= 100.0f;  // an outlier
  }
  return x;
}

inline std::unique_ptr<CpuDevice> device(int32_t threads) {
  return std::move(CpuDevice::create({}, threads)).value();
}

}  // namespace forerun
