// The layout of tensors in safetensors files: one file, or shards with an index, as transformers
// writes them.
//
// All functions are pure.
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
  std::string header;  // first bytes of the file; a multiple of 8 bytes
  uint64_t bytes = 0;  // bytes of the whole file
};

struct SafetensorsLayout {
  std::vector<SafetensorsFile> files;
  // The index of each tensor's file, and the offset of its first byte there.
  std::vector<size_t> file_of;
  std::vector<uint64_t> offset_of;
  std::string index;  // text of model.safetensors.index.json; empty for a single file
};

// Fills one file after the other, each with at most `max_file_bytes` of tensors, or one tensor.
SafetensorsLayout lay_out_safetensors(std::span<const SafetensorsTensor> tensors,
                                      uint64_t max_file_bytes);

}  // namespace forerun
