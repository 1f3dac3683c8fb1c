// A model in GGUF files: one file, or the parts of a split model, NAME-00001-of-0000N.gguf. Opening
// maps the files and reads their headers, but no weight.
//
// Const methods may be called from many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/gguf_header.h"
#include "checkpoint/gguf/gguf_metadata.h"
#include "checkpoint/mapped_file.h"
#include "forerun/status.h"

namespace forerun {

// A tensor in its file; row-major. Its pointers live as long as the GgufFile.
struct GgufFileTensor {
  std::string_view name;
  uint32_t ggml_type = 0;            // see ggml_types.h
  std::vector<int64_t> shape;        // outermost extent first
  std::span<const std::byte> bytes;  // empty, but at its place, if ggml_layout(ggml_type) is unset
  size_t part = 0;                   // index of its file in files()
};

class GgufFile {
 public:
  // Opens `path`, the only file of a model or any part of a split one with its other parts beside
  // it. Returns kNotFound for a missing file or part, the error of parse_gguf_header() for a bad
  // header, and kInvalidArgument for an impossible name of a part. Returns kCorrupt if the parts'
  // metadata (split.no, split.count, split.tensors.count) are missing or contradict their names or
  // each other, if a tensor is in two parts, or if the number of tensors differs from the stated
  // one. Messages name the file.
  static Result<GgufFile> open(const std::filesystem::path& path);

  // Returns the metadata of the first part.
  const GgufMetadata& metadata() const { return metadata_; }
  // Returns a reader whose messages begin with the name of the first part. It must not be used once
  // this object has moved.
  GgufMetadataReader metadata_reader() const;
  // Returns the tensors of all parts, in the order of their names.
  std::span<const GgufFileTensor> tensors() const { return tensors_; }
  // Returns null if there is no such tensor.
  const GgufFileTensor* find(std::string_view name) const;
  // Returns the files of all parts, in order.
  std::span<const MappedFile> files() const { return files_; }

 private:
  struct Part;
  GgufFile() = default;
  static Result<Part> open_part(const std::filesystem::path& path);
  void add(Part part);
  // Sorts the tensors. Fails if two have the same name.
  Status finish();

  std::vector<MappedFile> files_;
  GgufMetadata metadata_;
  std::vector<GgufFileTensor> tensors_;
};

// Returns whether to open a path as a GGUF file: it is no directory, and its name ends with ".gguf"
// in any case or it is a regular file that begins with "GGUF", as Ollama's blobs do.
bool is_gguf_path(const std::filesystem::path& path);

}  // namespace forerun
