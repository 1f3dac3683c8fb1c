// Where tensors lie in safetensors files: one file, or shards with an index, as transformers writes
// them.
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace forerun {

struct SafetensorsTensor {
  std::string name;
  DType dtype;  // F32, F16, BF16 or I32
  std::vector<int64_t> shape;
};

struct SafetensorsFile {
  std::string name;    // "model.safetensors" or "model-00001-of-00003.safetensors"
  std::string header;  // what the file begins with; a multiple of 8 bytes
  uint64_t bytes = 0;  // bytes of the whole file
};

struct SafetensorsLayout {
  std::vector<SafetensorsFile> files;
  // For each tensor: the index of its file, and the offset of its first byte there.
  std::vector<size_t> file_of;
  std::vector<uint64_t> offset_of;
  std::string index;  // text of model.safetensors.index.json; empty where there is one file
};

// Fills one file after the other, each with at most `max_file_bytes` of tensors, or one tensor.
SafetensorsLayout lay_out_safetensors(std::span<const SafetensorsTensor> tensors,
                                      uint64_t max_file_bytes);

}  // namespace forerun
