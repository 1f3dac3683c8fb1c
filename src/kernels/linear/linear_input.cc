#include "kernels/linear/linear_input.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <new>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/formats/weight_formats.h"

namespace forerun {
namespace {

bool wants(WeightFormats formats, const WeightFormatInfo& info) {
  return (formats & weight_formats(info.format)) != 0;
}

bool wants(WeightFormats formats, WeightKind kind) {
  for (const WeightFormatInfo& info : weight_format_table()) {
    if (info.kind == kind && wants(formats, info)) return true;
  }
  return false;
}

// Returns whether one of the formats has groups of 16 inputs.
bool wants_sums_16(WeightFormats formats) {
  for (const GroupedFormat& format : kGroupedFormats) {
    if (format.group == 16 && (formats & weight_formats(format.format)) != 0) return true;
  }
  return false;
}

// Returns whether one of the formats has minima.
bool wants_negated(WeightFormats formats) {
  for (const GroupedFormat& format : kGroupedFormats) {
    if (has_min(format) && (formats & weight_formats(format.format)) != 0) return true;
  }
  return false;
}

// Returns whether `has` is true for the kernels of all integer formats among `formats`.
template <class Has>
bool all_have(WeightFormats formats, const Has& has) {
  for (const WeightFormatInfo& info : weight_format_table()) {
    if (info.kind == WeightKind::kIntegers && wants(formats, info) && !has(info.kernel))
      return false;
  }
  return true;
}

// All weights of an input share one layout of digits, so the most demanding format decides.
DigitLayout digit_layout_of(const LinearKernels& kernels, int64_t rows, int32_t digit_count,
                            WeightFormats formats) {
  if (kernels.tile_rows > 0 && all_have(formats, [&](int32_t kernel) {
        return rows >= tile_kernels(kernels, kernel).min_rows[digit_count - 1];
      })) {
    const bool as_bf16 = digit_count == 2 && all_have(formats, [&](int32_t kernel) {
                           return tile_kernels(kernels, kernel).bf16_digits != nullptr;
                         });
    return as_bf16 ? DigitLayout::kBf16Tiles : DigitLayout::kTiles;
  }
  const bool in_passes = all_have(formats, [&](int32_t kernel) {
    return integer_kernels(kernels, kernel).digit_passes[digit_count - 1];
  });
  if (rows >= kernels.grouped->min_stretch_rows && !in_passes &&
      all_have(formats, [&](int32_t kernel) {
        const IntegerKernels& integers = integer_kernels(kernels, kernel);
        return integers.words != nullptr && (digit_count == 2 || integers.words_of_one_digit);
      })) {
    return DigitLayout::kWords;
  }
  return DigitLayout::kFours;
}

bool is_for_tiles(DigitLayout layout) {
  return layout == DigitLayout::kTiles || layout == DigitLayout::kBf16Tiles;
}

// An M tile and a row, counted from the tile's first row.
struct MTileRow {
  int64_t first;  // the tile's first row
  int64_t rows;   // the tile's rows
  int64_t row;
};

// A cursor that finds the M tile of a row, for ascending rows.
class MTileCursor {
 public:
  explicit MTileCursor(const MTiles& m_tiles) : m_tiles_(m_tiles) {}
  MTileRow at(int64_t row) {
    while (m_tiles_.begin(m_tile_ + 1) <= row) ++m_tile_;
    const int64_t first = m_tiles_.begin(m_tile_);
    return {first, m_tiles_.begin(m_tile_ + 1) - first, row - first};
  }

 private:
  MTiles m_tiles_;
  int64_t m_tile_ = 0;
};

// A row's position among the M tiles of each layout.
struct RowPlaces {
  MTileRow floats;
  MTileRow halves;
  MTileRow digits;
};

// Returns the destination of a group of a row.
PackedGroup group_of(const InputRows& at, const InputLayout& layout, const LinearKernels& kernels,
                     const RowPlaces& places, int64_t group) {
  const auto& [in_floats, in_halves, in_digits] = places;
  PackedGroup out = {};
  out.m_tile_height = in_floats.rows;
  out.half_m_tile_height = in_halves.rows;
  out.digit_m_tile_height = in_digits.rows;
  out.digit_layout = layout.digit_layout;
  out.round_to_bf16 = layout.round_to_bf16;
  out.digit_count = layout.digit_count;
  if (at.floats != nullptr) {
    out.floats = at.floats + in_floats.first * layout.float_bytes / 4 +
                 group * kInputGroup * in_floats.rows + in_floats.row * kernels.float_lanes;
  }
  if (at.halves != nullptr) {
    out.halves = at.halves + in_halves.first * layout.half_bytes / 2 +
                 group * kInputGroup * in_halves.rows + in_halves.row * 32;
  }
  if (at.digits != nullptr) {
    const int64_t entry = (in_digits.first + in_digits.row) * layout.scale_stride + group;
    const int64_t row_bytes = is_for_tiles(layout.digit_layout) ? 64 : 4 * layout.input_bytes;
    out.digits = at.digits + in_digits.first * layout.digit_bytes +
                 group * kInputGroup * in_digits.rows * layout.input_bytes +
                 in_digits.row * row_bytes;
    out.scale = at.scales + entry;
    if (at.sums_16 != nullptr) out.sums_16 = at.sums_16 + 8 * entry;
    out.sums_32 = at.sums_32 + 4 * entry;
    out.sums_64 = at.sums_64 + 2 * entry;
    out.sums_128 = at.sums_128 + entry;
    if (at.negated_16 != nullptr) out.negated_16 = at.negated_16 + 8 * entry;
    if (at.negated_32 != nullptr) out.negated_32 = at.negated_32 + 4 * entry;
  }
  return out;
}

}  // namespace

void AlignedBuffer::Free::operator()(std::byte* data) const { std::free(data); }

void AlignedBuffer::grow(size_t bytes) {
  if (fits(bytes)) return;
  data_.reset();
  capacity_ = 0;
  const size_t rounded = (bytes + 63) / 64 * 64;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
  if (data_ == nullptr) throw std::bad_alloc();
  capacity_ = rounded;
}

InputLayout InputLayout::plan(int64_t rows, int64_t in, Activation activation,
                              WeightFormats formats) {
  InputLayout layout;
  layout.groups = (in + kInputGroup - 1) / kInputGroup;
  layout.round_to_bf16 = activation != Activation::kF32;
  const int64_t padded = layout.groups * kInputGroup;
  const bool integers = wants(formats, WeightKind::kIntegers);
  const bool halves = takes_bf16_pairs(activation) && wants(formats, WeightKind::kPairs);
  const bool floats =
      wants(formats, WeightKind::kDense) || (integers && activation == Activation::kF32);
  if (floats) layout.float_bytes = padded * 4;
  if (halves) layout.half_bytes = padded * 2;
  if (integers && activation != Activation::kF32) {
    layout.digit_count = activation == Activation::kInt8 ? 1 : 2;
    layout.has_sums_16 = wants_sums_16(formats);
    layout.has_negated = wants_negated(formats);
    layout.digit_layout = digit_layout_of(linear_kernels(), rows, layout.digit_count, formats);
    layout.input_bytes = layout.digit_layout == DigitLayout::kWords ? 2 : layout.digit_count;
    layout.digit_bytes = padded * layout.input_bytes;
    layout.scale_stride = (layout.groups + 15) / 16 * 16;
  }
  return layout;
}

size_t InputLayout::row_bytes() const {
  const int64_t sums = (has_sums_16 ? 15 : 7) + (has_negated ? has_sums_16 ? 12 : 4 : 0);
  return static_cast<size_t>(float_bytes + half_bytes + digit_bytes +
                             scale_stride * int64_t{sizeof(float)} * (1 + sums));
}

InputRows InputRows::place(std::byte* buffer, const InputLayout& layout, int64_t row_count) {
  const auto take = [&buffer, row_count](int64_t stride) {
    std::byte* start = stride > 0 ? buffer : nullptr;
    buffer += stride * row_count;
    return start;
  };
  const int64_t scale_bytes = layout.scale_stride * int64_t{sizeof(float)};
  InputRows rows;
  rows.floats = reinterpret_cast<float*>(take(layout.float_bytes));
  rows.halves = reinterpret_cast<uint16_t*>(take(layout.half_bytes));
  rows.digits = reinterpret_cast<int8_t*>(take(layout.digit_bytes));
  rows.scales = reinterpret_cast<float*>(take(scale_bytes));
  if (layout.has_sums_16) rows.sums_16 = reinterpret_cast<int32_t*>(take(8 * scale_bytes));
  rows.sums_32 = reinterpret_cast<int32_t*>(take(4 * scale_bytes));
  rows.sums_64 = reinterpret_cast<int32_t*>(take(2 * scale_bytes));
  rows.sums_128 = reinterpret_cast<int32_t*>(take(scale_bytes));
  if (layout.has_negated) {
    if (layout.has_sums_16) rows.negated_16 = reinterpret_cast<float*>(take(8 * scale_bytes));
    rows.negated_32 = reinterpret_cast<float*>(take(4 * scale_bytes));
  }
  return rows;
}

LinearInput::LinearInput() : storage_(std::make_unique<Storage>()) {}
LinearInput::~LinearInput() = default;
LinearInput::LinearInput(LinearInput&&) noexcept = default;
LinearInput& LinearInput::operator=(LinearInput&&) noexcept = default;

void LinearInput::reserve(int64_t rows, int64_t in, Activation activation, WeightFormats formats) {
  const InputLayout layout = InputLayout::plan(rows, in, activation, formats);
  storage_->buffer.grow(layout.row_bytes() * static_cast<size_t>(rows));
}

void LinearInput::pack(const Team& team, MatrixView<const float> x, Activation activation,
                       WeightFormats formats, std::span<const int32_t> order) {
  const int64_t rows = x.dim(0);
  const int64_t in = x.dim(1);
  assert(order.empty() || static_cast<int64_t>(order.size()) == in);
  const InputLayout layout = InputLayout::plan(rows, in, activation, formats);
  const size_t bytes = layout.row_bytes() * static_cast<size_t>(rows);
  // Every member sees the same capacity and takes the same branch, since the capacity changes only
  // between the two syncs.
  if (!storage_->buffer.fits(bytes)) {
    team.sync();
    if (team.rank() == 0) storage_->buffer.grow(bytes);
    team.sync();
  }
  const InputRows at = InputRows::place(storage_->buffer.data(), layout, rows);
  const LinearKernels& kernels = linear_kernels();
  const auto m_tiles_of = [rows](int64_t height) {
    return MTiles{rows, (rows + height - 1) / height};
  };
  const MTiles m_tiles = m_tiles_of(kernels.m_tile_rows);
  const MTiles half_m_tiles = kernels.tile_rows > 0 ? m_tiles_of(kernels.tile_rows) : m_tiles;
  const MTiles digit_m_tiles = is_for_tiles(layout.digit_layout) ? half_m_tiles
                               : layout.digit_layout == DigitLayout::kWords
                                   ? m_tiles_of(kernels.grouped->word_rows)
                                   : m_tiles;
  if (team.rank() == 0) {
    storage_->layout = layout;
    storage_->at = at;
    storage_->activation = activation;
    storage_->m_tiles = m_tiles;
    storage_->half_m_tiles = half_m_tiles;
    storage_->digit_m_tiles = digit_m_tiles;
    storage_->in = in;
    storage_->order = order;
  }
  const WorkRange units = team.share(rows * layout.groups);
  MTileCursor in_floats(m_tiles);
  MTileCursor in_halves(half_m_tiles);
  MTileCursor in_digits(digit_m_tiles);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const int64_t row = unit / layout.groups;
    const int64_t group = unit % layout.groups;
    const int64_t first = group * kInputGroup;
    const int64_t count = std::min(in - first, kInputGroup);
    const RowPlaces places = {in_floats.at(row), in_halves.at(row), in_digits.at(row)};
    const float* from = x.row(row) + first;
    float ordered[kInputGroup];
    if (!order.empty()) {
      for (int64_t idx = 0; idx < count; ++idx) {
        ordered[idx] = x.row(row)[order[static_cast<size_t>(first + idx)]];
      }
      from = ordered;
    }
    kernels.pack_group(from, count, group_of(at, layout, kernels, places, group));
  }
}

int64_t LinearInput::rows() const { return storage_->m_tiles.rows; }
int64_t LinearInput::in_features() const { return storage_->in; }

}  // namespace forerun
