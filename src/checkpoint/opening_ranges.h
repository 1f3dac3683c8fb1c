// The files and byte ranges that Checkpoint::open() reads. A copy that has these ranges, and holes
// elsewhere, opens as the whole checkpoint does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"

namespace forerun {

struct FileRange {
  std::filesystem::path file;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Returns the range of a tensor that is not in parts.
FileRange range_of(const Checkpoint& checkpoint, const RawTensor& tensor);

// Returns the ranges of weight files that opening reads: the bytes before the first tensor of each
// file, and Checkpoint::read_tensors(). The ranges may overlap.
std::vector<FileRange> opening_ranges(const Checkpoint& checkpoint);

// Returns the files beside the weights that a reader of the checkpoint may open, such as
// config.json and tokenizer.json, sorted; none for a GGUF file. Fails with kNotFound and the
// folder's name if the folder cannot be read.
Result<std::vector<std::filesystem::path>> side_files(const Checkpoint& checkpoint);

}  // namespace forerun
