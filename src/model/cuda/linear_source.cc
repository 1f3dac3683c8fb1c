#include "model/cuda/linear_source.h"

#include <algorithm>
#include <utility>

#include "base/dtype.h"
#include "base/status_macros.h"
#include "checkpoint/blocks/block_format.h"
#include "checkpoint/float_tensor.h"
#include "kernels/linear/cuda/plan.h"
#include "model/block_packing.h"
#include "model/integer_blocks.h"
#include "model/parts_packing.h"
#include "model/weight_packing.h"

namespace forerun::cuda {
namespace {

constexpr int64_t kWord = 8;  // values per packed word
constexpr int64_t kFp8Inputs = unit_inputs(LinearFormat::kFp8);

// Returns the slice in units of several elements.
Slice in_units(const Slice& slice, int64_t unit) {
  return {.from = {slice.from.begin / unit, slice.from.end / unit},
          .lead = slice.lead / unit,
          .total = slice.total / unit};
}

bool aligned(const Slice& slice, int64_t unit) {
  return slice.from.begin % unit == 0 && slice.from.end % unit == 0 && slice.lead % unit == 0 &&
         slice.total % unit == 0;
}

}  // namespace

MatrixSlice embedding_rows(const RawTensor& embedding) {
  const bool has_blocks = gpu_embedding_format(embedding).has_value();
  const int64_t values = has_blocks ? embedding.blocks->weights : 1;
  return {.tensor = &embedding,
          .rows = Slice::of_all(embedding.shape[0]),
          .columns = Slice::of_all(embedding.shape[1] / values),
          .as_bf16 = !has_blocks};
}

Result<LinearSource> LinearSource::find(const Checkpoint& checkpoint, ModuleId module) {
  LinearSource source;
  FORERUN_ASSIGN_OR_RETURN(source.weight_, require_weight(checkpoint, module));
  FORERUN_RETURN_IF_ERROR(check_readable(*source.weight_));
  if (source.weight_->parts != nullptr) {
    source.awq_ = source.weight_->parts->awq_gemm();
    if (auto floats = source.weight_->parts->floats()) {
      source.fp8_ = std::make_shared<const ScaledFloats>(std::move(*floats));
    }
  }
  return source;
}

bool LinearSource::packs_as_int4(const Slice& out, const Slice& in, int64_t step) const {
  return awq_ && awq_->group_size == kInt4Group && awq_->scales->dtype == DType::kF16 &&
         aligned(in, kInt4Group) && aligned(out, kWord) && out.total % step == 0;
}

LinearSource::Int4 LinearSource::int4(const Slice& out, const Slice& in) const {
  return {.qweight = {.tensor = awq_->qweight, .rows = in, .columns = in_units(out, kWord)},
          .qzeros = {.tensor = awq_->qzeros,
                     .rows = in_units(in, kInt4Group),
                     .columns = in_units(out, kWord)},
          .scales = {.tensor = awq_->scales, .rows = in_units(in, kInt4Group), .columns = out}};
}

std::optional<LinearFormat> LinearSource::stored_format(const Slice& in) const {
  if (in.from.size() == 0 || in.lead != 0 || in.total != in.from.size()) return std::nullopt;
  if (has_integers()) return gpu_integer_format(*weight_->parts, {all_outputs(), in.from});
  std::optional<WeightFormat> stored;
  if (fp8_) stored = WeightFormat::kFp8;
  if (weight_->blocks != nullptr) stored = kernel_format(weight_->blocks->format);
  const auto format = stored ? cuda::grouped_format(*stored) : std::nullopt;
  if (!format || !aligned(in, unit_inputs(*format))) return std::nullopt;
  const bool cuts_scales = fp8_ && fp8_->block_in < weight_->parts->in_features() &&
                           fp8_->block_in % unit_inputs(*format) != 0;
  return cuts_scales ? std::nullopt : format;
}

size_t LinearSource::integer_block_bytes(const Slice& out, const Slice& in, LinearFormat format) {
  return static_cast<size_t>(out.total * integer_row_bytes(format, in.total));
}

Result<std::vector<std::byte>> LinearSource::integer_blocks(const Slice& out, const Slice& in,
                                                            LinearFormat format) const {
  std::vector<std::byte> rows(integer_block_bytes(out, in, format));
  const auto lead = static_cast<size_t>(out.lead * integer_row_bytes(format, in.total));
  FORERUN_RETURN_IF_ERROR(make_integer_blocks(*weight_->parts, {out.from, in.from}, format,
                                              std::span(rows).subspan(lead)));
  return rows;
}

LinearSource::Blocks LinearSource::blocks(const Slice& out, const Slice& in) const {
  const int64_t weights = weight_->blocks->weights;
  const ShardRange range = {in.from.begin / weights, (in.from.end + weights - 1) / weights};
  return {.rows = {.tensor = weight_, .rows = out, .columns = Slice::of(range)},
          .first_input = in.from.begin % weights};
}

MatrixSlice LinearSource::fp8_codes(const Slice& out, const Slice& in) const {
  return {.tensor = fp8_->codes, .rows = out, .columns = in};
}

int64_t LinearSource::fp8_scale_count(const Slice& out, const Slice& in) {
  return out.total * (in.total / kFp8Inputs);
}

Result<std::vector<float>> LinearSource::fp8_scales(const Slice& out, const Slice& in) const {
  // The CPU's packed weight is a view: making it checks the numbers.
  FORERUN_RETURN_IF_ERROR(pack_parts(*weight_->parts, {out.from, in.from}).status());
  std::vector<float> scales;
  scales.reserve(static_cast<size_t>(fp8_scale_count(out, in)));
  for (int64_t row = 0; row < out.total; ++row) {
    const int64_t output =
        std::clamp(out.from.begin + row - out.lead, out.from.begin, out.from.end - 1);
    for (int64_t input = in.from.begin; input < in.from.end; input += kFp8Inputs) {
      scales.push_back(fp8_->scale(output, input));
    }
  }
  return scales;
}

MatrixSlice LinearSource::bf16_part(const Slice& out, const Slice& in) const {
  return {.tensor = weight_, .rows = out, .columns = in, .as_bf16 = true};
}

}  // namespace forerun::cuda
