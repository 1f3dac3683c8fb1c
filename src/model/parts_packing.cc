#include "model/parts_packing.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "base/status_macros.h"
#include "checkpoint/float_tensor.h"
#include "device/cpu/portions.h"
#include "kernels/linear/formats/integer_packer.h"
#include "kernels/linear/formats/weight_formats.h"
#include "kernels/linear/linear_weight.h"

namespace forerun {
namespace {

constexpr int64_t kOutsOfWord = 8;
constexpr int64_t kInt4Inputs = 32;  // int4 kernels take groups of multiples of this

// Returns the number of a part's inputs that share a scale. If the part begins or ends within a
// group, the scale is repeated for smaller groups.
int64_t group_of_part(const AwqTensors& awq, const ModulePart& part) {
  return std::gcd(awq.group_size, std::gcd(part.in.begin, part.in.size()));
}

// Returns rows and columns of a matrix of words, in place or, if the file has not aligned them, in
// `copy`.
MatrixView<const int32_t> words_of(const RawTensor& tensor, const ShardRange& rows,
                                   const ShardRange& columns, std::vector<int32_t>& copy) {
  const int64_t width = tensor.shape[1];
  const std::array<int64_t, 2> shape{rows.size(), columns.size()};
  if (const auto* const words = aligned_elements<int32_t>(tensor)) {
    return {words + rows.begin * width + columns.begin, shape, width};
  }
  copy.resize(static_cast<size_t>(rows.size() * columns.size()));
  for (int64_t row = 0; row < rows.size(); ++row) {
    std::memcpy(copy.data() + row * columns.size(),
                tensor.bytes.data() +
                    ((rows.begin + row) * width + columns.begin) * int64_t{sizeof(int32_t)},
                static_cast<size_t>(columns.size()) * sizeof(int32_t));
  }
  return {copy.data(), shape};
}

bool packs_awq(const AwqTensors& awq, const ModulePart& part) {
  return part.out.begin % kOutsOfWord == 0 && part.out.size() % kOutsOfWord == 0 &&
         group_of_part(awq, part) % kInt4Inputs == 0;
}

LinearWeight pack_awq(const AwqTensors& awq, const ModulePart& part) {
  const int64_t group = group_of_part(awq, part);
  const int64_t groups = part.in.size() / group;
  const int64_t outs = part.out.size();
  const ShardRange words{part.out.begin / kOutsOfWord, part.out.end / kOutsOfWord};
  std::vector<int32_t> qweight_copy, qzeros_copy;
  std::vector<int32_t> zeros(static_cast<size_t>(groups * words.size()));
  std::vector<float> scales(static_cast<size_t>(groups * outs));
  const MatrixView<const int32_t> stored_zeros =
      words_of(*awq.qzeros, {0, awq.in_features / awq.group_size}, words, qzeros_copy);
  for (int64_t index = 0; index < groups; ++index) {
    const int64_t stored = (part.in.begin + index * group) / awq.group_size;
    widen(*awq.scales, stored * awq.out_features + part.out.begin, outs,
          scales.data() + index * outs);
    std::copy_n(stored_zeros.row(stored), words.size(), zeros.data() + index * words.size());
  }
  return LinearWeight::from_awq(words_of(*awq.qweight, part.in, words, qweight_copy),
                                {zeros.data(), {groups, words.size()}},
                                {scales.data(), {groups, outs}}, group);
}

// Channels per portion of a thread.
constexpr int64_t kPortionOuts = 4 * kBlockOuts;

GroupedIntegers source_of(StoredIntegers range) {
  const auto held = std::make_shared<const StoredIntegers>(std::move(range));
  GroupedIntegers source{.bits = held->bits,
                         .group = held->group,
                         .scale_type = held->scale_dtype,
                         .has_short_scales = held->has_short_scales,
                         .quants = {},
                         .scales = {},
                         .zeros = {},
                         .order = {}};
  source.quants = [held](int64_t first, MatrixView<uint8_t> q) { held->quants(first, q); };
  source.scales = [held](int64_t out, std::span<float> to) { held->scales(out, to.data()); };
  if (held->has_zeros) {
    source.zeros = [held](int64_t out, std::span<int16_t> to) { held->zeros(out, to.data()); };
  }
  if (!held->order.empty()) {
    source.order =
        std::make_shared<const std::vector<int32_t>>(held->order.begin(), held->order.end());
  }
  return source;
}

Result<LinearWeight> pack_integers(StoredIntegers range) {
  const int64_t outs = range.outs, ins = range.ins;
  FORERUN_ASSIGN_OR_RETURN(IntegerPacker packer,
                           IntegerPacker::create(outs, ins, source_of(std::move(range))));
  const int64_t count = (outs + kPortionOuts - 1) / kPortionOuts;
  share_portions(count, outs / kPortionOuts, [&](Portions& portions) {
    while (const auto index = portions.next()) {
      const int64_t first = *index * kPortionOuts;
      packer.pack(first, std::min(kPortionOuts, outs - first));
    }
  });
  return packer.finish();
}

// Returns the number of a part's inputs that share a scale; the part may begin within a block of
// the layer.
int64_t block_of_part(const ScaledFloats& floats, const ModulePart& part) {
  const bool is_in_one_block =
      part.in.begin / floats.block_in == (part.in.end - 1) / floats.block_in;
  return is_in_one_block ? part.in.size() : std::gcd(floats.block_in, part.in.begin);
}

bool packs_floats(const ScaledFloats& floats, const ModulePart& part) {
  const int64_t block = block_of_part(floats, part);
  return block == part.in.size() || block % kInputPad == 0;
}

// The blocks of a part: their extents, and their number in each dimension.
struct FloatBlocks {
  int64_t out, in, rows, columns;
  int64_t count() const { return rows * columns; }
};

FloatBlocks blocks_of(const ScaledFloats& floats, const ModulePart& part) {
  const int64_t in = block_of_part(floats, part);
  const int64_t out = std::gcd(floats.block_out, part.out.begin);
  return {out, in, (part.out.size() + out - 1) / out, (part.in.size() + in - 1) / in};
}

Result<LinearWeight> view_floats(const ScaledFloats& floats, const ModulePart& part) {
  const auto [block_out, block_in, rows, columns] = blocks_of(floats, part);
  const int64_t outs = part.out.size(), ins = part.in.size();
  std::vector<float> scales;
  for (int64_t out = 0; out < outs; out += block_out) {
    for (int64_t in = 0; in < ins; in += block_in) {
      scales.push_back(floats.scale(part.out.begin + out, part.in.begin + in));
    }
  }
  const int64_t width = floats.codes->shape[1];
  const auto* const codes = reinterpret_cast<const uint8_t*>(floats.codes->bytes.data()) +
                            part.out.begin * width + part.in.begin;
  return LinearWeight::view_fp8(MatrixView<const uint8_t>(codes, {outs, ins}, width),
                                {.values = MatrixView<const float>(scales.data(), {rows, columns}),
                                 .block_out = block_out,
                                 .block_in = block_in});
}

}  // namespace

std::optional<PartsPlan> plan_parts(const WeightParts& parts, const ModulePart& part) {
  const int64_t outs = part.out.size(), ins = part.in.size();
  if (const auto floats = parts.floats()) {
    if (!packs_floats(*floats, part)) return std::nullopt;
    const FloatBlocks blocks = blocks_of(*floats, part);
    return PartsPlan{WeightFormat::kFp8, weight_bytes(WeightFormat::kFp8, outs, ins) +
                                             blocks.count() * int64_t{sizeof(float)}};
  }
  if (const auto awq = parts.awq_gemm(); awq && packs_awq(*awq, part)) {
    const int64_t chunk = std::gcd(group_of_part(*awq, part), kInputGroup);
    return PartsPlan{WeightFormat::kInt4, weight_bytes(WeightFormat::kInt4, outs, ins, chunk)};
  }
  const auto range = parts.integers(part.out.begin, part.out.end, part.in.begin, part.in.end);
  if (!range || (range->group != ins && range->group % kInputPad != 0)) return std::nullopt;
  const Result<IntegerPlan> plan = plan_integers(outs, ins, source_of(*range));
  return plan.ok() ? std::optional(PartsPlan{plan->format, plan->bytes}) : std::nullopt;
}

Result<LinearWeight> pack_parts(const WeightParts& parts, const ModulePart& part) {
  if (const auto floats = parts.floats()) return view_floats(*floats, part);
  if (const auto awq = parts.awq_gemm(); awq && packs_awq(*awq, part)) return pack_awq(*awq, part);
  return pack_integers(*parts.integers(part.out.begin, part.out.end, part.in.begin, part.in.end));
}

}  // namespace forerun
