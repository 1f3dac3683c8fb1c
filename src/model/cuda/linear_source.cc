#include "model/cuda/linear_source.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>

#include "base/dtype.h"
#include "base/status_macros.h"
#include "checkpoint/float_tensor.h"
#include "kernels/linear/cuda/plan.h"
#include "kernels/linear/linear.h"

namespace forerun::cuda {
namespace {

constexpr int64_t kWord = 8;  // values in a packed word

// The slice in units of several elements.
Slice in_units(const Slice& slice, int64_t unit) {
  return {.from = {slice.from.begin / unit, slice.from.end / unit},
          .lead = slice.lead / unit,
          .total = slice.total / unit};
}

bool aligned(const Slice& slice, int64_t unit) {
  return slice.from.begin % unit == 0 && slice.from.end % unit == 0 && slice.lead % unit == 0 &&
         slice.total % unit == 0;
}

template <class T>
std::vector<T> copied(const MatrixSlice& slice) {
  std::vector<T> values(slice.bytes() / sizeof(T));
  slice.copy_rows(0, slice.rows.total, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

}  // namespace

Result<LinearSource> LinearSource::find(const Checkpoint& checkpoint, ModuleId module) {
  LinearSource source;
  if (checkpoint.config().quantization.kind == QuantizationConfig::Kind::kAwq) {
    auto awq = checkpoint.awq_tensors(module);
    if (awq.ok()) {
      source.awq_ = *awq;
      return source;
    }
    if (awq.status().code() != StatusCode::kNotFound) return awq.status();
  }
  FORERUN_ASSIGN_OR_RETURN(source.plain_, require_weight(checkpoint, module));
  FORERUN_RETURN_IF_ERROR(check_readable(*source.plain_));
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

Result<LinearSource::Bf16> LinearSource::bf16_part(const Slice& out, const Slice& in) const {
  Bf16 part;
  part.slice = {.tensor = plain_, .rows = out, .columns = in, .as_bf16 = true};
  if (plain_ != nullptr) return part;
  // Dequantizes as the CPU's kernels do, and rounds. The part may begin or end within a group,
  // whose scale is then repeated for smaller groups, and within a word of outputs.
  FORERUN_RETURN_IF_ERROR(check_readable(*awq_->scales));
  const ShardRange words{out.from.begin / kWord, (out.from.end + kWord - 1) / kWord};
  const int64_t group = std::gcd(awq_->group_size, std::gcd(in.from.begin, in.from.size()));
  const int64_t groups = in.from.size() / group;
  const int64_t outputs = words.size() * kWord;
  std::vector<int32_t> zeros;
  std::vector<float> scales(static_cast<size_t>(groups * outputs));
  for (int64_t index = 0; index < groups; ++index) {
    const int64_t stored = (in.from.begin + index * group) / awq_->group_size;
    const std::vector<int32_t> row = copied<int32_t>({.tensor = awq_->qzeros,
                                                      .rows = Slice::of({stored, stored + 1}),
                                                      .columns = Slice::of(words)});
    zeros.insert(zeros.end(), row.begin(), row.end());
    widen(*awq_->scales, stored * awq_->out_features + words.begin * kWord, outputs,
          scales.data() + index * outputs);
  }
  const std::vector<int32_t> qweight = copied<int32_t>(
      {.tensor = awq_->qweight, .rows = Slice::of(in.from), .columns = Slice::of(words)});
  const LinearWeight packed = LinearWeight::from_awq(
      MatrixView<const int32_t>(qweight.data(), {in.from.size(), words.size()}),
      MatrixView<const int32_t>(zeros.data(), {groups, words.size()}),
      MatrixView<const float>(scales.data(), {groups, outputs}), group);
  std::vector<float> wide(static_cast<size_t>(outputs * in.from.size()));
  packed.dequantize(0, MatrixView<float>(wide.data(), {outputs, in.from.size()}));
  part.converted.resize(wide.size());
  std::transform(wide.begin(), wide.end(), part.converted.begin(),
                 [](float value) { return to_bf16(value); });
  part.tensor =
      std::make_unique<RawTensor>(RawTensor{.name = awq_->qweight->name,
                                            .dtype = DType::kBf16,
                                            .shape = {outputs, in.from.size()},
                                            .bytes = std::as_bytes(std::span(part.converted))});
  const int64_t skipped = out.from.begin - words.begin * kWord;
  part.slice.tensor = part.tensor.get();
  part.slice.rows.from = {skipped, skipped + out.from.size()};
  part.slice.columns.from = {0, in.from.size()};
  return part;
}

std::vector<const RawTensor*> LinearSource::tensors() const {
  if (plain_ != nullptr) return {plain_};
  return {awq_->qweight, awq_->qzeros, awq_->scales};
}

}  // namespace forerun::cuda
