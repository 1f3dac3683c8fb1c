// A checkpoint's linear layer and a GPU's part of it, in the form that the packing kernels take.
// Host memory only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/layouts/weight_parts.h"
#include "forerun/status.h"
#include "kernels/linear/cuda/plan.h"
#include "model/cuda/matrix_slice.h"

namespace forerun::cuda {

// Returns the rows of an embedding in the format of the GPU's look-up: whole blocks, or bf16
// (gpu_embedding_format()).
MatrixSlice embedding_rows(const RawTensor& embedding);

class LinearSource {
 public:
  // The checkpoint must outlive the source.
  static Result<LinearSource> find(const Checkpoint& checkpoint, ModuleId module);

  // Returns whether the layer is AutoAWQ's "gemm" version; the int4 kernels unpack its words.
  bool is_awq() const { return awq_.has_value(); }
  // Returns whether the int4 kernels take the part as it is stored. The number of its outputs must
  // be a multiple of `step`.
  bool packs_as_int4(const Slice& out, const Slice& in, int64_t step) const;

  // Only if packs_as_int4(): AutoAWQ's tensors, [in][out / 8], [in / 128][out / 8] and [in /
  // 128][out].
  struct Int4 {
    MatrixSlice qweight, qzeros, scales;
  };
  Int4 int4(const Slice& out, const Slice& in) const;

  // The format in which kernels take these inputs as they are stored, in blocks of a GGUF file, in
  // e4m3 or as integers (gpu_integer_format()). Nothing for other formats, and where edges or
  // scales cut units.
  std::optional<LinearFormat> stored_format(const Slice& in) const;
  // Whether a part in the format is made of integers' blocks, which integer_blocks() makes,
  // [out.total][integer_row_bytes()]. It fails if a scale or a zero cannot
  // be.
  bool has_integers() const { return weight_->parts != nullptr && fp8_ == nullptr; }
  static size_t integer_block_bytes(const Slice& out, const Slice& in, LinearFormat format);
  Result<std::vector<std::byte>> integer_blocks(const Slice& out, const Slice& in,
                                                LinearFormat format) const;
  // Only for a part in a grouped format of blocks: its rows of whole blocks, and the offset of a
  // row's start in its first block.
  struct Blocks {
    MatrixSlice rows;
    int64_t first_input;
  };
  Blocks blocks(const Slice& out, const Slice& in) const;
  // Only for a part in e4m3: its codes, and the number of their scales. fp8_scales() computes the
  // scales, [out.total][in.total / 64]; it fails if a code or a scale is no number.
  MatrixSlice fp8_codes(const Slice& out, const Slice& in) const;
  static int64_t fp8_scale_count(const Slice& out, const Slice& in);
  Result<std::vector<float>> fp8_scales(const Slice& out, const Slice& in) const;

  // Returns the part as bf16 [out][in], whatever the format.
  MatrixSlice bf16_part(const Slice& out, const Slice& in) const;

  // The stored tensor, perhaps of DType::kParts.
  const RawTensor& tensor() const { return *weight_; }

 private:
  ShardRange all_outputs() const { return {0, weight_->shape[0]}; }

  const RawTensor* weight_ = nullptr;
  std::optional<AwqTensors> awq_;            // set for AutoAWQ's "gemm" version
  std::shared_ptr<const ScaledFloats> fp8_;  // null unless stored as e4m3
};

}  // namespace forerun::cuda
