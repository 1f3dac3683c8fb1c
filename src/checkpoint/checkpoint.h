// A checkpoint: a Hugging Face directory with config.json and safetensors, or a GGUF file; weights
// are memory-mapped.
//
// Thread rules: const methods may be called from many threads; open() and destruction may not
// overlap with anything.
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

// One tensor as it lies in the file; row-major, little-endian. `bytes` lives as long as the
// Checkpoint. It may start at any address: safetensors does not align tensors, though most files
// do.
struct RawTensor {
  std::string_view name;  // as the file spells it
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  const BlockFormatInfo* blocks = nullptr;  // format of DType::kBlocks, else null
  // A weight that several tensors store, without bytes of its own: for DType::kParts, else null.
  const WeightParts* parts = nullptr;
  // The rows of each head of so many rows lie in the file in the order 0, d/2, 1, d/2 + 1, ...:
  // GGUF files of the Llama family pair neighbouring rows for rotary embedding. 0: rows lie in
  // order.
  int64_t interleaved_head = 0;

  // Whether the elements can be read where they lie, [rows][columns].
  bool is_plain() const { return blocks == nullptr && parts == nullptr && interleaved_head == 0; }
  // The row of the file that holds row `row` of the weight.
  int64_t stored_row(int64_t row) const {
    if (interleaved_head == 0) return row;
    const int64_t half = interleaved_head / 2;
    const int64_t within = row % interleaved_head;
    return row - within + within % half * 2 + within / half;
  }
};

// "bf16", "Q4_K" or "gptq-int4".
std::string_view format_name(const RawTensor& tensor);
// The tensor's bytes in its files; for a weight in parts, the bytes of all parts.
int64_t stored_bytes(const RawTensor& tensor);

// A pointer to the elements in the mapped file, or null if they are not aligned for T; then copy
// `bytes`. T has the size of the tensor's dtype.
template <class T>
const T* aligned_elements(const RawTensor& tensor) {
  const void* data = tensor.bytes.data();
  if (sizeof(T) != dtype_bytes(tensor.dtype)) return nullptr;
  return reinterpret_cast<uintptr_t>(data) % alignof(T) == 0 ? static_cast<const T*>(data)
                                                             : nullptr;
}

// A tensor under the name that it has in Hugging Face's files, such as
// "model.layers.0.self_attn.q_proj.qweight".
struct ModuleTensor {
  std::string name;
  const RawTensor* tensor;
};

class GgufFile;

class Checkpoint {
 public:
  // `path` is a directory with config.json and model.safetensors or the shards of
  // model.safetensors.index.json, or a GGUF file, or the first part of a split one. Maps the files
  // and checks: headers, offsets, lengths, that each tensor the config implies is there in a shape
  // and dtype that fit, that no file is truncated. Formats that are not read (2 and 3 bits, .bin)
  // are refused by name, with what to convert them with. Reads no weight.
  static Result<Checkpoint> open(const std::filesystem::path& path);

  // Opens an EAGLE-3 head, a directory or a GGUF file like the above. What it takes from its target
  // (Eagle3Config::own_embedding, own_head) is not among its modules.
  static Result<Checkpoint> open_eagle3(const std::filesystem::path& path);

  // Opens what may guess for a target: an EAGLE-3 head where config.json or a GGUF
  // file's metadata names one, else a model.
  static Result<Checkpoint> open_draft(const std::filesystem::path& path);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  // The directory or the GGUF file.
  const std::filesystem::path& path() const;
  // The name of the directory, or that of the file without a ".gguf" in any case.
  std::string name() const;
  // The GGUF file with its metadata; null for a directory.
  const GgufFile* gguf() const;
  const ModelConfig& config() const;
  // Lets positions go up to `max_position`, beyond the context that the model was made for: for a
  // draft that sees only a window of the text.
  void extend_positions(int32_t max_position);
  // The checkpoint's own sampling defaults; read anew with each call.
  Result<GenerationDefaults> generation_defaults() const;

  // The target's token for each row of an EAGLE-3 head's LM head, [draft_vocab_size]; empty where
  // every row has the token's number.
  std::span<const int32_t> draft_tokens() const;

  // Pointers live as long as the Checkpoint; null where there is no such tensor. Where several
  // tensors store a weight, weight() describes it as one, of DType::kParts.
  const RawTensor* weight(ModuleId module) const;
  const RawTensor* bias(ModuleId module) const;
  // Everything that stores a module: its weight, or the parts of it, and its bias.
  std::vector<ModuleTensor> tensors_of(ModuleId module) const;
  // All tensors of the files, those that the decoder does not use too.
  std::span<const RawTensor> tensors() const;
  // The file that holds a tensor of this checkpoint, and the offset of its first byte there.
  const std::filesystem::path& file_of(const RawTensor& tensor) const;
  int64_t offset_of(const RawTensor& tensor) const;

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

// Turns what a user typed into a directory or a GGUF file: a path that exists, or "org/name" (or
// "org/name@REVISION": branch, tag or whole commit) in the local Hugging Face cache, and behind
// either ":QUANTIZATION", which chooses among a directory's GGUF files; the cache is $HF_HUB_CACHE,
// $HF_HOME/hub, ~/.cache/huggingface/hub; main without a revision. Never downloads.
Result<std::filesystem::path> resolve_checkpoint(std::string_view model);

}  // namespace forerun
