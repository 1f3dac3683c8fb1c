// Linear layers for any number of rows: y[row][out] = sum over in of x[row][in] * w[out][in].
//
// The same kernels serve 1 row and 1,024 rows. The split of the inner dimension, the instruction
// and the order of summation depend only on the weight. So a row's bits do not depend on the other
// rows of the batch, on the team's size or on the M tile (batch invariance, on which exact
// speculation depends). The instruction set is chosen once per process (kernels/isa.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/tensor_view.h"
#include "device/cpu/team.h"
#include "forerun/status.h"
#include "kernels/linear/weight_format.h"
#include "kernels/precision.h"

namespace forerun {

const char* weight_format_name(WeightFormat format);

// Returns whether the current instruction set has a dot instruction for bf16 pairs and inputs
// rounded by `activation` suit it. If not, LinearWeight::pair_bf16 must not be called.
bool takes_bf16_pairs(Activation activation);

struct GroupedBlock;     // formats/grouped_packer.h
struct GroupedIntegers;  // formats/integer_packer.h

// FP8 scales, one per block of block_out x block_in weights.
struct Fp8Scales {
  MatrixView<const float> values;  // [ceil(out / block_out)][ceil(in / block_in)], up to 2^119
  int64_t block_out;               // 1 or more
  int64_t block_in;                // a multiple of 32, or at least `in`
};

// The weight of one linear layer, [out][in], in one of the formats. Movable. Immutable after
// construction; many threads may use it.
class LinearWeight {
 public:
  LinearWeight() = default;

  // Make views: `w` [out][in] must outlive the weight, which copies nothing.
  static LinearWeight view(MatrixView<const float> w);
  static LinearWeight view(MatrixView<const bf16> w);
  static LinearWeight view(MatrixView<const f16> w);

  // Makes a view of FP8 e4m3 (without infinities): a weight is code * scale in f32. `codes`
  // [out][in] must outlive the weight; they are read once to refuse NaN. The scales are copied.
  static Result<LinearWeight> view_fp8(MatrixView<const uint8_t> codes, const Fp8Scales& scales);

  // Copies bf16 weights in pairs of inputs of a channel, for bf16 dot instructions.
  static LinearWeight pair_bf16(MatrixView<const bf16> w);

  // Quantizes to int8 with one f32 scale per output channel, symmetric, absmax / 127.
  static LinearWeight quantize_int8(MatrixView<const float> w);
  // Quantizes weights that are too large to widen at once: `fill(first, rows)` writes output
  // channels [first, first + rows.dim(0)); it is called for a few channels at a time, in ascending
  // order.
  static LinearWeight quantize_int8(
      int64_t out, int64_t in,
      const std::function<void(int64_t first, MatrixView<float> rows)>& fill);

  // Repacks AutoAWQ's "gemm" layout: `qweight` [in][out/8] and `qzeros` [in/group][out/8] hold 8
  // nibbles per word in AutoAWQ's bit order (nibble i is column 8w + {0,2,4,6,1,3,5,7}[i]);
  // `scales` [in/group][out]. A weight is (q - zero) * scale. `group` divides in and is a multiple
  // of 32. The weight does not need the sources afterwards.
  static LinearWeight from_awq(MatrixView<const int32_t> qweight, MatrixView<const int32_t> qzeros,
                               MatrixView<const float> scales, int64_t group);

  // Packs weights of a grouped format, a few blocks at a time (formats/grouped_packer.h, where a
  // GroupedPacker does the same with many threads). `in` is a multiple of a block's inputs.
  static LinearWeight pack_grouped(
      WeightFormat format, int64_t out, int64_t in,
      const std::function<void(int64_t out, int64_t block, std::span<GroupedBlock> to)>& source);

  // Packs integers in groups of inputs into the format that holds them exactly
  // (formats/integer_packer.h, where an IntegerPacker does the same with many threads).
  static Result<LinearWeight> pack_integers(int64_t out, int64_t in, const GroupedIntegers& source);

  int64_t out_features() const { return out_; }
  int64_t in_features() const { return in_; }
  WeightFormat format() const { return format_; }
  // Returns the bytes that a kernel reads in one pass over the weight.
  size_t bytes() const { return bytes_; }
  // Returns the order in which kernels take the layer's inputs: the weight's input i is the layer's
  // input order[i]. Empty for the layer's order. Valid as long as the weight. LinearInput::pack
  // needs it.
  std::span<const int32_t> input_order() const {
    return input_order_ == nullptr ? std::span<const int32_t>() : *input_order_;
  }
  // Writes the dequantized weights of output channels [first, first + rows) to `w` [rows][in], in
  // the layer's input order.
  void dequantize(int64_t first, MatrixView<float> w) const;

  struct Storage;  // linear_weight.h, for the kernels
  const Storage& storage() const { return *storage_; }

 private:
  friend class GroupedPacker;
  friend class IntegerPacker;
  template <class T>
  static LinearWeight view_as(WeightFormat format, MatrixView<const T> w);

  int64_t out_ = 0;
  int64_t in_ = 0;
  WeightFormat format_ = WeightFormat::kF32;
  size_t bytes_ = 0;
  std::shared_ptr<const Storage> storage_;
  std::shared_ptr<const std::vector<int32_t>> input_order_;
};

// Returns whether two weights take the inputs in the same order, so that one LinearInput serves
// both.
bool same_input_order(std::span<const int32_t> a, std::span<const int32_t> b);

// The input of one or several linear layers, rounded once (Activation) and laid out for the chosen
// instruction set. Capacity grows on demand and never shrinks.
class LinearInput {
 public:
  LinearInput();
  ~LinearInput();
  LinearInput(LinearInput&&) noexcept;
  LinearInput& operator=(LinearInput&&) noexcept;

  // Reserves memory for [rows][in]. One thread calls it, outside of a team's run or between syncs.
  void reserve(int64_t rows, int64_t in, Activation activation,
               WeightFormats formats = kAllWeightFormats);
  // Collective: packs `x` [rows][in] (members pack disjoint parts). The caller syncs before the
  // first linear() that reads it. `formats` are those of the weights to multiply; the rows are laid
  // out only for these, so a weight of another format must not be used. `order` is the
  // input_order() of all these weights; it must outlive the use of the input.
  void pack(const Team& team, MatrixView<const float> x, Activation activation,
            WeightFormats formats = kAllWeightFormats, std::span<const int32_t> order = {});

  int64_t rows() const;
  int64_t in_features() const;

  struct Storage;
  const Storage& storage() const { return *storage_; }

 private:
  std::unique_ptr<Storage> storage_;
};

// Operations on a sum before it is stored.
struct LinearEpilogue {
  std::span<const float> bias;  // [out] or empty; added first
  const float* residual =
      nullptr;                 // same shape and stride as y, may be y itself: y = residual + sum
  bool round_to_bf16 = false;  // rounds the result (after the residual addition)
};

// Collective: y [rows][out] = x · wᵀ. Members write disjoint output channels.
void linear(const Team& team, const LinearWeight& weight, const LinearInput& x, MatrixView<float> y,
            const LinearEpilogue& epilogue = {});

// Collective: y [rows][out] = silu(x · gateᵀ) * (x · upᵀ), each input read once; biases may be
// empty. gate and up have the same shape; their formats may differ.
void gate_up_swiglu(const Team& team, const LinearWeight& gate, const LinearWeight& up,
                    const LinearInput& x, std::span<const float> gate_bias,
                    std::span<const float> up_bias, MatrixView<float> y);
// Works as above for weights with different orders of inputs: the same rows, packed for each of
// them.
void gate_up_swiglu(const Team& team, const LinearWeight& gate, const LinearInput& gate_x,
                    const LinearWeight& up, const LinearInput& up_x,
                    std::span<const float> gate_bias, std::span<const float> up_bias,
                    MatrixView<float> y);

// Reference implementations: plain loops in double on dequantized weights, with inputs rounded by
// `activation` (kInt8: quantized and dequantized). Single-threaded.
void linear_ref(const LinearWeight& weight, MatrixView<const float> x, Activation activation,
                MatrixView<float> y, const LinearEpilogue& epilogue = {});
void gate_up_swiglu_ref(const LinearWeight& gate, const LinearWeight& up, MatrixView<const float> x,
                        Activation activation, std::span<const float> gate_bias,
                        std::span<const float> up_bias, MatrixView<float> y);

}  // namespace forerun
