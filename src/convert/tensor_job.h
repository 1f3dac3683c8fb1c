// How the tensors of the output are made from those of the input, in parts that need little memory
// and know nothing of each other.
//
// Thread rules: const methods may be called from many threads. The checkpoint must outlive the
// jobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "convert/output_format.h"
#include "convert/weight_source.h"
#include "forerun/status.h"

namespace forerun {

// A tensor as it will lie in the output.
struct OutputTensor {
  std::string name;
  DType dtype = DType::kF32;  // kBlocks with `blocks`
  const BlockFormatInfo* blocks = nullptr;
  std::vector<int64_t> shape;  // outermost extent first

  int64_t row_bytes() const;  // bytes of a row, the last extent
  uint64_t bytes() const;
};

// Bytes of one output tensor of a job, from `offset` of the tensor on.
struct EncodedPiece {
  size_t output_idx;
  int64_t offset;
  std::vector<std::byte> bytes;
};

class TensorJob {
 public:
  virtual ~TensorJob() = default;
  // One, or AWQ's three.
  const std::vector<OutputTensor>& outputs() const { return outputs_; }
  // What is read.
  const std::vector<const RawTensor*>& sources() const { return sources_; }
  virtual int64_t num_parts() const = 0;
  // The pieces of all parts together are the whole of every output. Fails, naming the tensor, where
  // a value cannot be written in the format.
  virtual Result<std::vector<EncodedPiece>> encode(int64_t part) const = 0;

 protected:
  std::vector<OutputTensor> outputs_;
  std::vector<const RawTensor*> sources_;
};

// The order of rows in the output, as RawTensor::interleaved_head says; 0: in order.
struct RowOrder {
  int64_t interleaved_head = 0;
  // The row of the weight that lies at `row` of the output.
  int64_t weight_row(int64_t row) const;
};

// The bytes as they lie in the input, under another name.
std::unique_ptr<TensorJob> copy_tensor(std::string name, const RawTensor& from);
// A tensor of one dimension as `dtype`.
std::unique_ptr<TensorJob> convert_vector(std::string name, const RawTensor& from, DType dtype,
                                          RowOrder order);
// f32 values that stand in no file.
std::unique_ptr<TensorJob> write_vector(std::string name, std::vector<float> values);
// Floats or blocks. Where the input has the format already, its bytes are copied; AWQ becomes Q4_1
// with its quantized values unchanged where its groups are multiples of 32.
std::unique_ptr<TensorJob> convert_weight(std::string name, WeightSource from,
                                          const FileFormat& format, RowOrder order);
// AWQ, rounded to nearest; `module` is the name without ".qweight". A group's range contains zero.
// group_size divides the columns, and 8 the rows.
std::unique_ptr<TensorJob> quantize_to_awq(const std::string& module, WeightSource from,
                                           int32_t group_size);

}  // namespace forerun
