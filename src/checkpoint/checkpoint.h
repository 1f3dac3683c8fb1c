// A Hugging Face checkpoint directory: config.json and its safetensors, memory-mapped.
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
#include "checkpoint/model_config.h"
#include "forerun/status.h"

namespace forerun {

// One tensor as it lies in the file; row-major, little-endian. `bytes` lives as long as the
// Checkpoint. It may start at any address: the format does not align tensors, though most files do.
struct RawTensor {
  std::string_view name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// A pointer to the elements in the mapped file, or null if they are not aligned for T; then copy
// `bytes`. T has the size of the tensor's dtype.
template <class T>
const T* aligned_elements(const RawTensor& tensor) {
  const void* data = tensor.bytes.data();
  if (sizeof(T) != dtype_bytes(tensor.dtype)) return nullptr;
  return reinterpret_cast<uintptr_t>(data) % alignof(T) == 0 ? static_cast<const T*>(data)
                                                             : nullptr;
}

class Checkpoint {
 public:
  // Reads config.json, maps model.safetensors or every shard of model.safetensors.index.json and
  // checks: headers, offsets, lengths, that each tensor the config implies is there in a shape and
  // dtype that fit, that no shard is truncated. Other formats (GPTQ, compressed-tensors, AWQ gemv,
  // .bin, GGUF) are refused by name, with what to convert them with. Reads no weight.
  static Result<Checkpoint> open(const std::filesystem::path& dir);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::filesystem::path& dir() const;
  const ModelConfig& config() const;
  // Lets positions go up to `max_position`, beyond the context that the model was made for: for a
  // draft that sees only a window of the text.
  void extend_positions(int32_t max_position);

  // Null where there is no such tensor. The pointer lives as long as the Checkpoint. Names are
  // those of the causal-LM classes: in files without "model." in front, "model.x" finds "x".
  const RawTensor* find(std::string_view name) const;
  // All tensors, in the order of their names.
  std::span<const RawTensor> tensors() const;

  // Lets the kernel drop the pages of a tensor that has been repacked elsewhere; the tensor stays
  // readable (from the file again).
  void release_pages(const RawTensor& tensor) const;
  // Asks the kernel to start reading a tensor.
  void prefetch_pages(const RawTensor& tensor) const;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The AWQ tensors of one linear layer, in_features × out_features as AutoAWQ's "gemm" version
// writes them. All spans live as long as the Checkpoint.
struct AwqTensors {
  const RawTensor* qweight;  // i32 [in][out / 8]
  const RawTensor* qzeros;   // i32 [in / group][out / 8]
  const RawTensor* scales;   // f16 or bf16 or f32 [in / group][out]
  int64_t in_features, out_features, group_size;
};

// Nibble i (bits 4i..4i+3) of a packed word holds column 8w + kAwqColumnOfNibble[i].
inline constexpr int kAwqColumnOfNibble[8] = {0, 2, 4, 6, 1, 3, 5, 7};
// Column c of a packed word lies in nibble kAwqNibbleOfColumn[c].
inline constexpr int kAwqNibbleOfColumn[8] = {0, 4, 1, 5, 2, 6, 3, 7};

// `prefix` is the module's name, e.g. "model.layers.0.mlp.up_proj". Fails if a part is missing or
// shapes disagree; not found (kNotFound) if none of the three is there.
Result<AwqTensors> find_awq_tensors(const Checkpoint& checkpoint, std::string_view prefix);

// Turns what a user typed into a checkpoint directory: a path that exists, or "org/name" (or
// "org/name@REVISION": branch, tag or whole commit) in the local Hugging Face cache: $HF_HUB_CACHE,
// $HF_HOME/hub, ~/.cache/huggingface/hub; main without a revision. Never downloads.
Result<std::filesystem::path> resolve_checkpoint_dir(std::string_view model);

}  // namespace forerun
