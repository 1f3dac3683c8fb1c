#include "model/requantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <utility>

#include "base/dtype.h"
#include "checkpoint/blocks/block_format.h"
#include "checkpoint/blocks/encode_blocks.h"
#include "checkpoint/blocks/round_blocks.h"
#include "device/cpu/portions.h"
#include "kernels/linear/formats/grouped.h"
#include "kernels/linear/formats/grouped_packer.h"
#include "kernels/linear/formats/weight_formats.h"
#include "model/block_packing.h"

namespace forerun {
namespace {

// Rows that a thread holds as f32: the channels of a kernel's block.
constexpr int64_t kPortion = kBlockOuts;
// For fewer rows than this, threads cost more than they save.
constexpr int64_t kMinRows = 64;
constexpr float kLargestF16 = 65504.0f;

// Returns the block format that a grouped format repacks, or null if there is none.
const BlockFormatInfo* blocks_of(WeightFormat format) {
  for (const BlockFormatInfo& blocks : block_formats()) {
    if (kernel_format(blocks.format) == format) return &blocks;
  }
  return nullptr;
}

bool can_make(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kBf16:
    case WeightFormat::kF16:
    case WeightFormat::kInt8:
      return true;
    default:
      return blocks_of(format) != nullptr;
  }
}

// Calls take(first, rows) for portions of the rows, on as many threads as there are cores.
template <class Take>
void for_portions(int64_t out, int64_t in, const FillRows& fill, const Take& take) {
  share_portions((out + kPortion - 1) / kPortion, out / kMinRows, [&](Portions& portions) {
    std::vector<float> values(static_cast<size_t>(std::min(kPortion, out) * in));
    while (const auto portion = portions.next()) {
      const int64_t first = *portion * kPortion;
      const MatrixView<float> rows(values.data(), {std::min(kPortion, out - first), in});
      fill(first, rows);
      take(first, rows);
    }
  });
}

bool fit_f16(MatrixView<float> rows) {
  return std::all_of(rows.row(0), rows.row(0) + rows.dim(0) * rows.dim(1),
                     [](float value) { return std::abs(value) <= kLargestF16; });
}

Status check_fits(bool fits, WeightFormat format) {
  if (fits) return Status();
  return Status(StatusCode::kUnsupported,
                "found a weight that is no number or beyond 65504, the largest that " +
                    std::string(weight_format_name(format)) +
                    " has room for; accepted: as_stored, or weights in bf16, f32 or int8");
}

template <class T, class Round>
LinearWeight make_floats(int64_t out, int64_t in, const FillRows& fill, OwnedBytes& owned,
                         const Round& round) {
  owned.push_back(
      std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(out * in) * sizeof(T)));
  auto* const made = reinterpret_cast<T*>(owned.back().get());
  for_portions(out, in, fill, [&](int64_t first, MatrixView<float> rows) {
    std::transform(rows.row(0), rows.row(0) + rows.dim(0) * in, made + first * in, round);
  });
  return LinearWeight::view(MatrixView<const T>(made, {out, in}));
}

Result<LinearWeight> make_f16(int64_t out, int64_t in, const FillRows& fill, OwnedBytes& owned) {
  std::atomic<bool> fits = true;
  const FillRows checked = [&](int64_t first, MatrixView<float> rows) {
    fill(first, rows);
    if (!fit_f16(rows)) fits = false;
  };
  LinearWeight made = make_floats<f16>(out, in, checked, owned, to_f16);
  const Status status = check_fits(fits, WeightFormat::kF16);
  if (!status.ok()) return status;
  return made;
}

Result<LinearWeight> make_grouped(WeightFormat format, int64_t out, int64_t in,
                                  const FillRows& fill) {
  const BlockFormatInfo& blocks = *blocks_of(format);
  // If there is no encoder, round_block() is used.
  const EncodeBlocks encode = block_encoder(blocks.format);
  const int64_t row_blocks = in / blocks.weights;
  GroupedPacker packer(format, out, in);
  std::atomic<bool> fits = true;
  for_portions(out, in, fill, [&](int64_t first, MatrixView<float> rows) {
    if (!fit_f16(rows)) fits = false;
    if (!fits) return;
    if (encode == nullptr) {
      BlockFields fields = {};
      packer.pack(first, rows.dim(0), [&](int64_t row, int64_t block, std::span<GroupedBlock> to) {
        const float* values = rows.row(row - first) + block * blocks.weights;
        for (GroupedBlock& each : to) {
          round_block(blocks, values, fields);
          copy_fields(blocks, fields, each);
          values += blocks.weights;
        }
      });
      return;
    }
    const int64_t row_bytes = row_blocks * blocks.bytes;
    std::vector<std::byte> encoded(static_cast<size_t>(rows.dim(0) * row_bytes));
    encode(rows.row(0), rows.dim(0) * row_blocks, encoded.data());
    packer.pack(first, rows.dim(0), [&](int64_t row, int64_t block, std::span<GroupedBlock> to) {
      unpack_blocks(blocks, encoded.data() + (row - first) * row_bytes + block * blocks.bytes, to);
    });
  });
  const Status status = check_fits(fits, format);
  if (!status.ok()) return status;
  return packer.finish();
}

}  // namespace

std::span<const WeightFormat> requantizable_formats() {
  static const std::vector<WeightFormat> formats = [] {
    std::vector<WeightFormat> made;
    for (const WeightFormatInfo& info : weight_format_table()) {
      if (can_make(info.format)) made.push_back(info.format);
    }
    return made;
  }();
  return formats;
}

int64_t input_multiple(WeightFormat format) {
  return is_grouped(format) ? block_inputs(grouped_format(format)) : 1;
}

Result<LinearWeight> requantize(WeightFormat format, int64_t out, int64_t in, const FillRows& fill,
                                OwnedBytes& owned) {
  switch (format) {
    case WeightFormat::kF32:
      return make_floats<float>(out, in, fill, owned, [](float value) { return value; });
    case WeightFormat::kBf16:
      return make_floats<bf16>(out, in, fill, owned, to_bf16);
    case WeightFormat::kF16:
      return make_f16(out, in, fill, owned);
    case WeightFormat::kInt8:
      return LinearWeight::quantize_int8(out, in, fill);
    default:
      return make_grouped(format, out, in, fill);
  }
}

}  // namespace forerun
