// A model in GGUF files: one file, or the parts of a split model, NAME-00001-of-0000N.gguf. The
// files are mapped and their headers read; no weight is.
//
// Thread rules: const methods may be called from many threads.
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

// One tensor as it lies in its file; row-major. What it points to lives as long as the GgufFile.
struct GgufFileTensor {
  std::string_view name;
  uint32_t ggml_type = 0;            // see ggml_types.h
  std::vector<int64_t> shape;        // outermost extent first
  std::span<const std::byte> bytes;  // starts in its place, but is empty, where
                                     // ggml_layout(ggml_type) is unset
  size_t part = 0;                   // the index of its file in files()
};

class GgufFile {
 public:
  // `path` is the only file of a model or any part of a split one, whose other parts lie beside it.
  // Refused as kNotFound: a file or a part that is not there; as parse_gguf_header() refuses: a bad
  // header; as kCorrupt: parts whose metadata (split.no, split.count, split.tensors.count) are
  // missing or contradict their names or each other, a tensor that is in two parts, a number of
  // tensors that is not the stated one; as kInvalidArgument: a name that is impossible for a part.
  // Messages name the file.
  static Result<GgufFile> open(const std::filesystem::path& path);

  // The metadata of the first part.
  const GgufMetadata& metadata() const { return metadata_; }
  // Its messages begin with the name of the first part. The reader must not be used once this
  // object has moved.
  GgufMetadataReader metadata_reader() const;
  // The tensors of all parts, in the order of their names.
  std::span<const GgufFileTensor> tensors() const { return tensors_; }
  // Null where there is no such tensor.
  const GgufFileTensor* find(std::string_view name) const;
  // The files of all parts, in order.
  std::span<const MappedFile> files() const { return files_; }

 private:
  struct Part;
  GgufFile() = default;
  static Result<Part> open_part(const std::filesystem::path& path);
  void add(Part part);
  // Sorts the tensors. Fails where two have one name.
  Status finish();

  std::vector<MappedFile> files_;
  GgufMetadata metadata_;
  std::vector<GgufFileTensor> tensors_;
};

// Whether a path is to be opened as a GGUF file: no directory, and its name ends with ".gguf" in
// any case or it is a regular file that begins with "GGUF", as Ollama's blobs do.
bool is_gguf_path(const std::filesystem::path& path);

}  // namespace forerun
