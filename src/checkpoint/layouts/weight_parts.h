// The weight of a linear layer in several tensors, as in AWQ, GPTQ, compressed-tensors and FP8
// checkpoints. Loaders find it in RawTensor::parts of Checkpoint::weight(). widen() of
// float_tensor.h reads all layouts, and packers of kernels take the quants as they are stored.
//
// A weight's value is (quant - zero) * scale or code * scale, in f32; each operation is rounded
// once.
//
// Const methods may be called from many threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor_view.h"
#include "checkpoint/checkpoint.h"

namespace forerun {

class TensorTable;
class WeightParts;

// Integers of 4 or 8 bits in groups of inputs that share a scale and a zero: a range of a layer's
// outputs and inputs, both counted from 0. It refers to its WeightParts, which must outlive it.
struct StoredIntegers {
  int64_t outs = 0;
  int64_t ins = 0;
  int32_t bits = 4;                 // 4 or 8
  int64_t group = 0;                // inputs that share a scale; divides `ins`
  DType scale_dtype = DType::kF16;  // as stored: kF16, kBf16 or kF32
  bool has_zeros = false;           // if false, every zero of the layer is 1 << (bits - 1)
  bool has_short_scales = true;     // no scale of the layer needs more than 15 bits of mantissa
  // Empty, or a permutation: input i of the range is input order[i].
  std::span<const int32_t> order;
  const WeightParts* parts = nullptr;  // these three members locate the range
  int64_t first_out = 0;
  int64_t first_in = 0;

  int64_t groups() const { return ins / group; }
  // Reads all inputs of outputs from `first` on, 0 .. 2^bits - 1, in the order of `order`, to `to`
  // [outputs][ins]. It is fastest for 16 outputs or more at once.
  void quants(int64_t first, MatrixView<uint8_t> to) const;
  // Write groups() values of output `out`. Zeros lie in 0 .. 2^bits: GPTQ adds one to the stored
  // value.
  void scales(int64_t out, float* to) const;
  void zeros(int64_t out, int16_t* to) const;
};

// Numbers of float8 e4m3 with a scale per block of outputs and inputs: a whole layer. Blocks at the
// edges may be partial.
struct ScaledFloats {
  const RawTensor* codes = nullptr;  // kF8E4M3 [out][in], in the mapped file
  int64_t block_out = 1;             // 1, 128, or all outputs
  int64_t block_in = 128;            // 128, or all inputs
  int64_t in_blocks = 1;
  std::vector<float> scales;  // [blocks of outputs][in_blocks]

  float scale(int64_t out, int64_t in) const {
    return scales[static_cast<size_t>(out / block_out * in_blocks + in / block_in)];
  }
};

// The tensors of AutoAWQ's "gemm" version.
struct AwqTensors {
  const RawTensor* qweight;  // i32 [in][out / 8]
  const RawTensor* qzeros;   // i32 [in / group][out / 8]
  const RawTensor* scales;   // f16 or bf16 or f32 [in / group][out]
  int64_t in_features, out_features, group_size;
};

// The parts of a layer, indexed as in the layout's list.
struct PartTensors {
  static constexpr size_t kMaxParts = 8;
  int64_t out = 0;
  int64_t in = 0;
  int64_t group = 0;   // inputs that share a scale
  int64_t groups = 0;  // groups per output
  int32_t bits = 4;
  int64_t block = 0;       // outputs, and inputs, that share a float's scale; 0 if all inputs do
  int32_t added_zero = 0;  // to add to a stored zero point
  std::array<const RawTensor*, kMaxParts> tensors{};  // null if absent

  const RawTensor& operator[](size_t part) const { return *tensors[part]; }
  bool has(size_t part) const { return tensors[part] != nullptr; }
};

class WeightParts {
 public:
  // Returns whether the table has the identifying part of `scheme`'s layout for the layer `module`
  // (its name in Hugging Face's files).
  static bool are_in(const TensorTable& table, const std::string& module,
                     const LayerScheme& scheme);
  // Finds the parts and checks names, dtypes and shapes, and the values of parts that describe
  // others (shapes, groups of inputs). Messages begin with the tensor. The table must outlive the
  // result, which must not be moved afterwards.
  Status find(const TensorTable& table, const Module& module, const LayerScheme& scheme);

  // Returns "awq-int4", "gptq-int8", "ct-int4" (compressed-tensors), "fp8" and the like.
  const std::string& name() const { return name_; }
  int64_t out_features() const { return parts_.out; }
  int64_t in_features() const { return parts_.in; }
  // Returns the tensor for Checkpoint::weight(): [out][in], of DType::kParts.
  const RawTensor& tensor() const { return tensor_; }
  // Returns all tensors of the weight, with their names in Hugging Face's files.
  const std::vector<ModuleTensor>& tensors() const { return tensors_; }
  int64_t stored_bytes() const;
  // Returns the tensors of which find() has read the values.
  const std::vector<const RawTensor*>& read_tensors() const { return read_tensors_; }

  // Writes inputs [first, first + count) of output `out` as f32, in the layer's order.
  void widen(int64_t out, int64_t first, int64_t count, float* to) const;

  // Returns a range of outputs and of inputs for packers. Returns nothing for floats, and for a
  // part of the inputs if groups are not contiguous (GPTQ's desc_act), which callers widen. A range
  // that cuts groups has smaller ones, with repeated scales. The first call may read all zeros of
  // the layer, or all scales if they are f32 and the integers have 8 bits.
  std::optional<StoredIntegers> integers(int64_t first_out, int64_t last_out, int64_t first_in,
                                         int64_t last_in) const;
  // Whether f16 has every scale of the layer, and whether all its zeros are below 1 << bits, for
  // integers. The first call may read all of them.
  bool has_f16_scales() const;
  bool has_zeros_of_bits() const;
  // Whether the weight is numbers of e4m3, not integers.
  bool are_floats() const;
  // Returns the floats, for packers of e4m3; nothing for integers.
  std::optional<ScaledFloats> floats() const;
  // Returns AutoAWQ's tensors for packers that unpack its words themselves; nothing for other
  // layouts.
  std::optional<AwqTensors> awq_gemm() const;

 private:
  friend struct StoredIntegers;
  Status find_part(const TensorTable& table, const std::string& module, const LayerScheme& scheme,
                   size_t part);
  Status read_order(const RawTensor& groups_of_inputs, bool wanted);
  const WeightLayout& layout() const { return *layout_; }
  // Returns whether some zero is not 1 << (bits - 1).
  bool has_zeros_beside_middle() const;
  bool has_short_scales() const;

  enum class Answer : uint8_t { kUnknown, kNo, kYes };

  const WeightLayout* layout_ = nullptr;
  std::string name_;
  PartTensors parts_;
  bool has_zeros_ = true;
  std::vector<ModuleTensor> tensors_;
  std::vector<const RawTensor*> read_tensors_;  // pointers into the table
  // Empty if the inputs of each group are contiguous, else:
  std::vector<int32_t> group_of_;  // [in] the group of an input
  std::vector<int32_t> order_;     // [in] inputs sorted by group
  RawTensor tensor_;
  // What integers() and the functions about scales and zeros have found out.
  mutable std::atomic<Answer> has_zeros_beside_middle_ = Answer::kUnknown;
  mutable std::atomic<Answer> has_short_scales_ = Answer::kUnknown;
  mutable std::atomic<Answer> has_f16_scales_ = Answer::kUnknown;
  mutable std::atomic<Answer> has_zeros_of_bits_ = Answer::kUnknown;
};

}  // namespace forerun
