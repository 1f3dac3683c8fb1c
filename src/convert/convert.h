// Writes a checkpoint as a GGUF file or as a directory of safetensors, in another format or in its
// own.
//
// Thread rules: convert_checkpoint() starts threads of its own and ends them before it returns; one
// call at a time for one output.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "convert/output_format.h"
#include "forerun/status.h"

namespace forerun {

struct ConvertOptions {
  FileFormat to;  // format of the linear layers
  // Unset: in a GGUF file, Q8_0 where `to` has fewer than 8 bits, else `to`, but blocks with at
  // most as many bits as these stay what they are; beside AWQ, the input's own floats, or f16 where
  // the input has blocks. A head without a format of its own takes the one that `embedding` names.
  std::optional<FileFormat> embedding, head;
  // A file of a directory holds weights of at most so many bytes, or one tensor. A GGUF file is
  // never split.
  uint64_t max_shard_bytes = 5'000'000'000;
  bool replace = false;  // replace an output that is there
  int num_threads = 0;   // 0: one for each core, 16 at most
  // Called by the calling thread, with a fraction in [0, 1].
  std::function<void(double)> on_progress;
  // Asked by the calling thread; true ends the conversion with kCancelled.
  std::function<bool()> is_cancelled;
};

struct Conversion {
  uint64_t bytes = 0;              // bytes of the weights that were written
  std::vector<std::string> notes;  // one line each: what differs from what was asked for
  int num_weights = 0;             // weights of embedding, linear layers and head
  int num_kept = 0;                // those of them whose rows are the input's, bit for bit
};

// `out` is a GGUF file where its name ends with ".gguf", else a directory. Norms and biases are f32
// in a GGUF file; in a directory they keep their format, and those of a GGUF file take the
// directory's where that rounds nothing. Where nothing is rounded, values are copied bit for bit.
//
// Memory: some tens of megabytes for each thread, besides the mapped input. Whatever fails,
// nothing is left behind, and `out` is what it was.
Result<Conversion> convert_checkpoint(const Checkpoint& input, const std::filesystem::path& out,
                                      const ConvertOptions& options);

bool is_gguf_name(const std::filesystem::path& out);

}  // namespace forerun
