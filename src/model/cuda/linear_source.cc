#include "model/cuda/linear_source.h"

#include "base/dtype.h"
#include "base/status_macros.h"
#include "checkpoint/float_tensor.h"
#include "kernels/linear/cuda/plan.h"

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

}  // namespace

Result<LinearSource> LinearSource::find(const Checkpoint& checkpoint, ModuleId module) {
  LinearSource source;
  FORERUN_ASSIGN_OR_RETURN(source.weight_, require_weight(checkpoint, module));
  FORERUN_RETURN_IF_ERROR(check_readable(*source.weight_));
  if (source.weight_->parts != nullptr) source.awq_ = source.weight_->parts->awq_gemm();
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

MatrixSlice LinearSource::bf16_part(const Slice& out, const Slice& in) const {
  return {.tensor = weight_, .rows = out, .columns = in, .as_bf16 = true};
}

}  // namespace forerun::cuda
