// Conversion of a checkpoint to a GGUF file or a directory of safetensors, in another format or in
// its own.
//
// convert_checkpoint() starts its own threads and ends them before it returns. Only one call at a
// time may write an output.
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
  // Formats of embedding and head. If they are unset, a GGUF file gets Q8_0 if `to` has fewer than
  // 8 bits, else `to`, but keeps input blocks with at most as many bits. An AWQ directory keeps the
  // input's floats, or gets f16 for blocks. A head without its own setting takes the one of
  // `embedding`.
  std::optional<FileFormat> embedding, head;
  // Largest number of bytes of weights per file of a directory; a larger tensor has a file of its
  // own. A GGUF file is never split.
  uint64_t max_shard_bytes = 5'000'000'000;
  bool replace = false;  // replaces an existing output
  int num_threads = 0;   // 0 for one per core, at most 16
  // Receives the fraction done, in [0, 1], on the calling thread.
  std::function<void(double)> on_progress;
  // Returns true to end the conversion with kCancelled; runs on the calling thread.
  std::function<bool()> is_cancelled;
};

struct Conversion {
  uint64_t bytes = 0;              // bytes of the written weights
  std::vector<std::string> notes;  // one line per difference from the request
  int num_weights = 0;             // weights of embedding, linear layers and head
  int num_kept = 0;                // weights among them with rows copied bit for bit
};

// Writes `input` to `out`, a GGUF file if the name ends with ".gguf", else a directory. Norms and
// biases are f32 in a GGUF file. In a directory they keep their format, but those of a GGUF file
// take the directory's format if that rounds nothing. Values that need no rounding are copied bit
// for bit.
//
// Takes some tens of megabytes per thread, besides the mapped input. On an error it leaves no files
// behind and `out` unchanged.
Result<Conversion> convert_checkpoint(const Checkpoint& input, const std::filesystem::path& out,
                                      const ConvertOptions& options);

bool is_gguf_name(const std::filesystem::path& out);

}  // namespace forerun
