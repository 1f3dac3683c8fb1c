// A checkpoint: a Hugging Face directory with config.json and safetensors, or a GGUF file. Its
// weights are memory-mapped.
//
// Many threads may call const methods; open() and destruction must not overlap with any other call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/blocks/block_format.h"
#include "checkpoint/model_config.h"
#include "checkpoint/modules.h"
#include "forerun/status.h"

namespace forerun {

class WeightParts;  // checkpoint/layouts/weight_parts.h

// A tensor in its file; row-major, little-endian. `bytes` lives as long as the Checkpoint. It may
// start at any address: safetensors does not align tensors, although most files do.
struct RawTensor {
  std::string_view name;  // the file's spelling
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  const BlockFormatInfo* blocks = nullptr;  // format of DType::kBlocks, else null
  // The weight in several tensors, for DType::kParts, which has no bytes of its own; else null.
  const WeightParts* parts = nullptr;
  // If not 0, the rows of each head of this many rows lie in the file in the order 0, d/2, 1, d/2 +
  // 1, ...: GGUF files of the Llama family pair adjacent rows for RoPE. If 0, rows lie in order.
  int64_t interleaved_head = 0;

  // Returns whether the elements can be read in place, [rows][columns].
  bool is_plain() const { return blocks == nullptr && parts == nullptr && interleaved_head == 0; }
  // Returns the row of the file that holds row `row` of the weight.
  int64_t stored_row(int64_t row) const {
    if (interleaved_head == 0) return row;
    const int64_t half = interleaved_head / 2;
    const int64_t within = row % interleaved_head;
    return row - within + within % half * 2 + within / half;
  }
};

// Returns a name such as "bf16", "Q4_K" or "gptq-int4".
std::string_view format_name(const RawTensor& tensor);
// Returns the tensor's bytes in its files; for a weight in parts, the bytes of all parts.
int64_t stored_bytes(const RawTensor& tensor);

// Returns a pointer to the elements in the mapped file, or null if they are not aligned for T; then
// copy `bytes`. T must have the size of the tensor's dtype.
template <class T>
const T* aligned_elements(const RawTensor& tensor) {
  const void* data = tensor.bytes.data();
  if (sizeof(T) != dtype_bytes(tensor.dtype)) return nullptr;
  return reinterpret_cast<uintptr_t>(data) % alignof(T) == 0 ? static_cast<const T*>(data)
                                                             : nullptr;
}

// A tensor with its name in Hugging Face's files, such as
// "model.layers.0.self_attn.q_proj.qweight".
struct ModuleTensor {
  std::string name;
  const RawTensor* tensor;
};

class GgufFile;

class Checkpoint {
 public:
  // Opens a checkpoint. `path` is a directory with config.json and model.safetensors or the shards
  // of model.safetensors.index.json, or a GGUF file, or the first part of a split one. Maps the
  // files and checks headers, offsets and lengths, that each tensor that the config implies exists
  // in a fitting shape and dtype, and that no file is truncated. Refuses unsupported formats (2 and
  // 3 bits, .bin) by name and says what converts them. Reads no weight.
  static Result<Checkpoint> open(const std::filesystem::path& path);

  // Opens an EAGLE-3 head, a directory or a GGUF file as above. The modules that it shares with its
  // target (Eagle3Config::own_embedding, own_head) are not among its modules.
  static Result<Checkpoint> open_eagle3(const std::filesystem::path& path);

  // Opens a model that may draft for a target: an EAGLE-3 head if config.json or a GGUF file's
  // metadata name one, else a model.
  static Result<Checkpoint> open_draft(const std::filesystem::path& path);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  // Returns the directory or the GGUF file.
  const std::filesystem::path& path() const;
  // Returns the name of the directory, or that of the file without ".gguf" in any case.
  std::string name() const;
  // Returns the GGUF file with its metadata; null for a directory.
  const GgufFile* gguf() const;
  const ModelConfig& config() const;
  // Allows positions up to `max_position`, beyond the model's context: for a draft that attends
  // only to a window.
  void extend_positions(int32_t max_position);
  // Returns the checkpoint's own sampling defaults; reads them anew with each call.
  Result<GenerationDefaults> generation_defaults() const;

  // Returns the target's token for each row of an EAGLE-3 head's LM head, [draft_vocab_size]; empty
  // if each row's number is its token.
  std::span<const int32_t> draft_tokens() const;

  // Return a module's weight or bias, or null if there is none. Pointers live as long as the
  // Checkpoint. If several tensors store a weight, weight() describes it as one, of DType::kParts.
  const RawTensor* weight(ModuleId module) const;
  const RawTensor* bias(ModuleId module) const;
  // Returns all tensors of a module: its weight, or the parts of it, and its bias.
  std::vector<ModuleTensor> tensors_of(ModuleId module) const;
  // Returns all tensors of the files, including those that the decoder does not use.
  std::span<const RawTensor> tensors() const;
  // The file of a tensor of this checkpoint, and the offset of its first byte there.
  const std::filesystem::path& file_of(const RawTensor& tensor) const;
  int64_t offset_of(const RawTensor& tensor) const;
  // Returns the files that hold tensors or metadata, each once.
  std::vector<std::filesystem::path> weight_files() const;
  // Returns the tensors of which open() has read the values: those that describe the layout of
  // others, and those that belong to the config of a GGUF file.
  std::vector<const RawTensor*> read_tensors() const;

  // Lets the kernel drop the pages of a tensor, or of all parts of a weight, that has been repacked
  // elsewhere; it stays readable (from the file again).
  void release_pages(const RawTensor& tensor) const;
  // Asks the kernel to start reading a tensor.
  void prefetch_pages(const RawTensor& tensor) const;

  struct Impl;

 private:
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Nibble i (bits 4i..4i+3) of a packed word holds column 8w + kAwqColumnOfNibble[i].
inline constexpr int kAwqColumnOfNibble[8] = {0, 2, 4, 6, 1, 3, 5, 7};
// Column c of a packed word lies in nibble kAwqNibbleOfColumn[c].
inline constexpr int kAwqNibbleOfColumn[8] = {0, 4, 1, 5, 2, 6, 3, 7};

// Resolves a user's argument to a directory or a GGUF file. The argument is an existing path, or
// "org/name" (or "org/name@REVISION": branch, tag or whole commit) in the local Hugging Face cache;
// ":QUANTIZATION" behind either chooses among a directory's GGUF files. The cache is $HF_HUB_CACHE,
// $HF_HOME/hub or ~/.cache/huggingface/hub; the default revision is main. Never downloads.
Result<std::filesystem::path> resolve_checkpoint(std::string_view model);

}  // namespace forerun
