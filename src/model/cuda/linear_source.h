// A linear layer of a checkpoint and a GPU's part of it, in the form that the kernels' packing
// takes. Host memory only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"
#include "model/cuda/matrix_slice.h"

namespace forerun::cuda {

class LinearSource {
 public:
  // The checkpoint must outlive the source.
  static Result<LinearSource> find(const Checkpoint& checkpoint, ModuleId module);

  // Whether one tensor stores it, as floats or as blocks.
  bool is_plain() const { return plain_ != nullptr; }
  // Whether the int4 kernels take the part as it is stored. `step`: the number of its outputs must
  // be a multiple of it.
  bool packs_as_int4(const Slice& out, const Slice& in, int64_t step) const;

  // Only where packs_as_int4(): AutoAWQ's tensors, [in][out / 8], [in / 128][out / 8] and
  // [in / 128][out].
  struct Int4 {
    MatrixSlice qweight, qzeros, scales;
  };
  Int4 int4(const Slice& out, const Slice& in) const;

  // bf16 [out][in], whatever the format.
  struct Bf16 {
    MatrixSlice slice;
    std::vector<bf16> converted;        // if several tensors store it; `slice` points into it
    std::unique_ptr<RawTensor> tensor;  // describes `converted`
  };
  Result<Bf16> bf16_part(const Slice& out, const Slice& in) const;

  // The tensors that it is stored in.
  std::vector<const RawTensor*> tensors() const;

 private:
  const RawTensor* plain_ = nullptr;  // or
  std::optional<AwqTensors> awq_;
};

}  // namespace forerun::cuda
