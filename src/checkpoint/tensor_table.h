// The tensors of a checkpoint's weight files by name, for every file format. Internal to
// checkpoint/.
//
// Const methods may be called from many threads.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors_header.h"
#include "forerun/status.h"

namespace forerun {

class TensorTable {
 public:
  // Maps the shards of `dir`/model.safetensors.index.json or, without it, model.safetensors, and
  // reads their headers. Ignores a model.safetensors that the index does not name, and logs that.
  static Result<TensorTable> open(const std::filesystem::path& dir);

  // Makes the table of a GGUF file. If `interleaved_head` is not 0, the rows of Q and K are
  // interleaved, in heads of this many rows.
  static TensorTable of_gguf(std::shared_ptr<const GgufFile> file, int64_t interleaved_head);

  // Finds a tensor by its name in Hugging Face's files, whatever its own files call it. If these
  // lack the prefix "model." (as base models without a head and EAGLE-3 heads do), "model.x" finds
  // "x"; in such heads "model.layers.0.x" finds "midlayer.x", and in GGUF files "model.norm.weight"
  // finds "output_norm.weight". Returns null if there is no such tensor, or if its dtype has no
  // DType.
  const RawTensor* find(std::string_view name) const;
  // Returns all tensors, sorted by their names in the files.
  std::span<const RawTensor> tensors() const { return tensors_; }
  // Returns the files' spelling of `name`.
  std::string spelling(std::string_view name) const;

  // Returns the files' dtype of a tensor that find() leaves out because of it; else empty.
  std::string_view foreign_dtype(std::string_view name) const;
  // Returns those tensors: the files' names and dtypes.
  const std::map<std::string, std::string, std::less<>>& foreign() const { return foreign_; }
  bool is_gguf() const { return naming_ == ModuleNaming::kGguf; }
  // Returns the source of the description, for messages: "config.json".
  std::string_view described_by() const;
  // Returns the file of `tensor`, which must be one of tensors().
  const std::filesystem::path& file_of(const RawTensor& tensor) const;
  // Returns the offset of the tensor's first byte in that file.
  int64_t offset_of(const RawTensor& tensor) const;
  // Returns the mapped files, including files without a tensor.
  std::vector<std::filesystem::path> files() const;
  // Returns the file for messages about a missing tensor.
  const std::filesystem::path& main_file() const { return main_file_; }

 private:
  TensorTable() = default;
  // Maps one file and reads its header. `listed` has the names that the index assigns to the file:
  // all must exist, and other tensors are dropped. If it is null, all are kept.
  Status add_file(const std::filesystem::path& file, const std::vector<std::string>* listed);
  void finish();
  void sort_tensors();
  std::span<const MappedFile> mapped_files() const;
  const MappedFile* mapped_file(const RawTensor& tensor) const;
  // Returns the tensor with this name in the files, or null.
  const RawTensor* find_spelled(std::string_view name) const;
  bool any_begins_with(std::string_view prefix) const;

  std::filesystem::path main_file_;
  std::vector<MappedFile> files_;
  // One list per safetensors file; they own the names.
  std::vector<std::vector<SafetensorsEntry>> entries_;
  std::shared_ptr<const GgufFile> gguf_;  // or null
  std::vector<RawTensor> tensors_;
  std::map<std::string, std::string, std::less<>> foreign_;  // name to dtype
  ModuleNaming naming_ = ModuleNaming::kHuggingFace;
  bool bare_names_ = false;
  bool has_midlayer_ = false;
};

}  // namespace forerun
