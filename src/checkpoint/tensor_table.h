// The tensors of a checkpoint's weight files by name, for every file format. Internal to
// checkpoint/.
//
// Thread rules: const methods may be called from many threads.
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
  // reads their headers. A model.safetensors that the index does not name is left out, which is
  // logged.
  static Result<TensorTable> open(const std::filesystem::path& dir);

  // The tensors of GGUF files. With `interleaved_head` the rows of Q and K lie interleaved, in
  // heads of so many rows; 0: they lie in order.
  static TensorTable of_gguf(std::shared_ptr<const GgufFile> file, int64_t interleaved_head);

  // `name` is Hugging Face's, whatever the files call the tensor: where they name tensors without
  // "model." in front (as base models without a head and EAGLE-3 heads do), "model.x" finds "x", in
  // such heads "model.layers.0.x" finds "midlayer.x", and in GGUF files "model.norm.weight" finds
  // "output_norm.weight". Null where there is no such tensor, or only one
  // whose dtype Forerun has no type for.
  const RawTensor* find(std::string_view name) const;
  // All tensors, sorted by the names that the files use.
  std::span<const RawTensor> tensors() const { return tensors_; }
  // `name` as the files spell it.
  std::string spelling(std::string_view name) const;

  // The dtype as the file spells it of a tensor that find() leaves out for its dtype; else empty.
  std::string_view foreign_dtype(std::string_view name) const;
  // Those foreign tensors: their names and dtypes as the files spell them.
  const std::map<std::string, std::string, std::less<>>& foreign() const { return foreign_; }
  bool is_gguf() const { return naming_ == ModuleNaming::kGguf; }
  // What says which tensors there must be, for messages: "config.json".
  std::string_view described_by() const;
  // The file that holds `tensor`, which must be one of tensors().
  const std::filesystem::path& file_of(const RawTensor& tensor) const;
  // The offset of the tensor's first byte in that file.
  int64_t offset_of(const RawTensor& tensor) const;
  // For messages about a tensor that is nowhere.
  const std::filesystem::path& main_file() const { return main_file_; }

 private:
  TensorTable() = default;
  // Maps one file and reads its header; `listed`: the names that the index assigns to it, all of
  // which must be there and no others are kept; null keeps all.
  Status add_file(const std::filesystem::path& file, const std::vector<std::string>* listed);
  void finish();
  void sort_tensors();
  const MappedFile* mapped_file(const RawTensor& tensor) const;
  // The tensor of a name that the files use; null where there is none.
  const RawTensor* find_spelled(std::string_view name) const;
  bool any_begins_with(std::string_view prefix) const;

  std::filesystem::path main_file_;
  std::vector<MappedFile> files_;
  std::vector<std::vector<SafetensorsEntry>> entries_;  // entries of safetensors files, which own
                                                        // the names; one list a file
  std::shared_ptr<const GgufFile> gguf_;                // or the GGUF file
  std::vector<RawTensor> tensors_;
  std::map<std::string, std::string, std::less<>> foreign_;  // name to dtype
  ModuleNaming naming_ = ModuleNaming::kHuggingFace;
  bool bare_names_ = false;
  bool has_midlayer_ = false;
};

}  // namespace forerun
