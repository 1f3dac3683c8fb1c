// Jobs that make the tensors of the output from those of the input, in independent parts that need
// little memory.
//
// Const methods may be called from many threads. The checkpoint must outlive the jobs.
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

// A tensor of the output.
struct OutputTensor {
  std::string name;
  DType dtype = DType::kF32;  // kBlocks if `blocks` is set
  const BlockFormatInfo* blocks = nullptr;
  std::vector<int64_t> shape;  // outermost extent first

  int64_t row_bytes() const;  // bytes of a row, which spans the last extent
  uint64_t bytes() const;
};

// Bytes of one output tensor of a job, which begin at `offset` of the tensor.
struct EncodedPiece {
  size_t output_idx;
  int64_t offset;
  std::vector<std::byte> bytes;
};

class TensorJob {
 public:
  virtual ~TensorJob() = default;
  // The tensor, or AWQ's three.
  const std::vector<OutputTensor>& outputs() const { return outputs_; }
  // The input tensors that the job reads.
  const std::vector<const RawTensor*>& sources() const { return sources_; }
  virtual int64_t num_parts() const = 0;
  // Encodes one part. The pieces of all parts together cover every output. Fails, naming the
  // tensor, if the format cannot hold a value.
  virtual Result<std::vector<EncodedPiece>> encode(int64_t part) const = 0;

 protected:
  std::vector<OutputTensor> outputs_;
  std::vector<const RawTensor*> sources_;
};

// The order of rows in the output, as in RawTensor::interleaved_head; 0 keeps the order.
struct RowOrder {
  int64_t interleaved_head = 0;
  // Returns the row of the weight that lies at `row` of the output.
  int64_t weight_row(int64_t row) const;
};

// Copies the input's bytes under another name.
std::unique_ptr<TensorJob> copy_tensor(std::string name, const RawTensor& from);
// Converts a tensor of one dimension to `dtype`.
std::unique_ptr<TensorJob> convert_vector(std::string name, const RawTensor& from, DType dtype,
                                          RowOrder order);
// Writes f32 values that are in no input file.
std::unique_ptr<TensorJob> write_vector(std::string name, std::vector<float> values);
// Converts a weight to floats or blocks. Copies the bytes if the input has the format already. AWQ
// becomes Q4_1 with its quantized values unchanged if its groups are multiples of 32.
std::unique_ptr<TensorJob> convert_weight(std::string name, WeightSource from,
                                          const FileFormat& format, RowOrder order);
// Quantizes a weight to AWQ by rounding to nearest; `module` is the name without ".qweight". Each
// group's range contains zero. group_size must divide the columns, and 8 the rows.
std::unique_ptr<TensorJob> quantize_to_awq(const std::string& module, WeightSource from,
                                           int32_t group_size);

}  // namespace forerun
