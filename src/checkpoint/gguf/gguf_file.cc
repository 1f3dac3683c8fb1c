#include "checkpoint/gguf/gguf_file.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/lfs_pointer.h"
#include "base/lower_case.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/gguf/gguf_split.h"

namespace forerun {
namespace {

Status corrupt_part(std::string message) {
  return Status(StatusCode::kCorrupt, std::move(message));
}

std::string part_of(int64_t part, int64_t num_parts) {
  return "part " + std::to_string(part) + " of " + std::to_string(num_parts);
}

// Checks that the first part's `split` agrees with the file's name.
Status check_first_part(const std::optional<GgufPartName>& name,
                        const std::optional<GgufSplit>& split, const std::string& file) {
  if (!split) {
    if (!name) return Status();
    return corrupt_part(
        file + ": found the name of " + part_of(name->part, name->num_parts) +
        ", but no metadata key \"split.count\"; accepted: a part as llama-gguf-split "
        "writes it, or a whole model under another name");
  }
  const int64_t named_parts = name ? name->num_parts : 1;
  if (split->num_parts == named_parts && split->part_idx == 0) return Status();
  const std::string found = part_of(split->part_idx + 1, split->num_parts);
  if (!name) {
    return corrupt_part(file + ": found " + found +
                        ", as its metadata say; accepted: parts under "
                        "names like NAME-00001-of-00002.gguf");
  }
  return corrupt_part(file + ": found " + found + ", as its metadata say; accepted: " +
                      part_of(1, named_parts) + ", as its name says");
}

Status check_later_part(const std::optional<GgufSplit>& split, const GgufSplit& first, int64_t part,
                        const std::string& file) {
  if (!split) {
    return corrupt_part(file + ": found no metadata key \"split.count\"; accepted: " +
                        part_of(part, first.num_parts));
  }
  if (split->num_parts != first.num_parts || split->part_idx != part - 1) {
    return corrupt_part(file + ": found " + part_of(split->part_idx + 1, split->num_parts) +
                        ", as its metadata say; accepted: " + part_of(part, first.num_parts) +
                        ", as its name says");
  }
  if (split->num_tensors != first.num_tensors) {
    return corrupt_part(file + ": metadata key \"split.tensors.count\": found " +
                        std::to_string(split->num_tensors) + "; accepted: " +
                        std::to_string(first.num_tensors) + ", as in the first part");
  }
  return Status();
}

}  // namespace

struct GgufFile::Part {
  MappedFile file;
  GgufHeader header;
  std::optional<GgufSplit> split;
};

Result<GgufFile::Part> GgufFile::open_part(const std::filesystem::path& path) {
  FORERUN_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  const auto* const text = reinterpret_cast<const char*>(file.bytes().data());
  FORERUN_RETURN_IF_ERROR(refuse_lfs_pointer({text, file.bytes().size()}, path.string()));
  auto header = parse_gguf_header(file.bytes(), file.bytes().size());
  if (!header.ok()) return header.status().with_context(path.string());
  FORERUN_ASSIGN_OR_RETURN(std::optional<GgufSplit> split,
                           read_gguf_split(header->metadata, path.string()));
  return Part{std::move(file), std::move(header).value(), split};
}

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  std::optional<GgufPartName> name = parse_gguf_part_name(path.filename().string());
  std::filesystem::path first_path = path;
  const int64_t given_part = name ? name->part : 1;
  std::error_code error;
  if (name) {
    if (name->part < 1 || name->part > name->num_parts) {
      return Status(StatusCode::kInvalidArgument,
                    path.string() + ": found the name of " + part_of(name->part, name->num_parts) +
                        "; accepted: parts from 1 to the number of parts");
    }
    name->part = 1;
    first_path.replace_filename(gguf_part_name(*name));
  }
  const auto missing = [&](const Status& status, int64_t part, int64_t num_parts) {
    if (status.code() != StatusCode::kNotFound || num_parts < 2) return status;
    return Status(status.code(), status.message() + " (" + part_of(part, num_parts) +
                                     "); accepted: all parts in one folder");
  };
  Result<Part> first = open_part(first_path);
  if (first.status().code() == StatusCode::kNotFound && path != first_path &&
      std::filesystem::exists(path, error)) {
    return Status(StatusCode::kNotFound,
                  path.string() + ": found " + part_of(given_part, name->num_parts) +
                      " without part 1; accepted: all parts in one folder, where " +
                      first_path.filename().string() + " is missing");
  }
  if (!first.ok()) return missing(first.status(), 1, name ? name->num_parts : 1);
  const std::optional<GgufSplit> split = first->split;
  FORERUN_RETURN_IF_ERROR(check_first_part(name, split, first_path.string()));

  GgufFile model;
  model.metadata_ = std::move(first->header.metadata);
  model.add(std::move(first).value());
  for (int64_t part = 2; split && part <= split->num_parts; ++part) {
    name->part = static_cast<uint32_t>(part);
    const std::filesystem::path file = first_path.parent_path() / gguf_part_name(*name);
    Result<Part> opened = open_part(file);
    if (!opened.ok()) return missing(opened.status(), part, split->num_parts);
    FORERUN_RETURN_IF_ERROR(check_later_part(opened->split, *split, part, file.string()));
    model.add(std::move(opened).value());
  }
  if (split && split->num_tensors != static_cast<int64_t>(model.tensors_.size())) {
    return corrupt_part(first_path.string() + ": metadata key \"split.tensors.count\": found " +
                        std::to_string(split->num_tensors) + "; accepted: " +
                        std::to_string(model.tensors_.size()) + ", which the parts hold");
  }
  FORERUN_RETURN_IF_ERROR(model.finish());
  return model;
}

void GgufFile::add(Part part) {
  for (GgufTensor& tensor : part.header.tensors) {
    tensors_.push_back(GgufFileTensor{
        .name = tensor.name,
        .ggml_type = tensor.ggml_type,
        .shape = std::move(tensor.shape),
        .bytes = part.file.bytes().subspan(tensor.begin, tensor.end - tensor.begin),
        .part = files_.size(),
    });
  }
  files_.push_back(std::move(part.file));
}

Status GgufFile::finish() {
  // The sort is stable: of two tensors with the same name, the one in the later part comes second.
  std::stable_sort(tensors_.begin(), tensors_.end(),
                   [](const auto& left, const auto& right) { return left.name < right.name; });
  const auto twice = std::adjacent_find(
      tensors_.begin(), tensors_.end(),
      [](const auto& left, const auto& right) { return left.name == right.name; });
  if (twice == tensors_.end()) return Status();
  return corrupt_part(files_[std::next(twice)->part].path().string() + ": tensor " +
                      in_quotes(twice->name) +
                      ": found again; accepted: every tensor once, and it is " + "in " +
                      files_[twice->part].path().string());
}

GgufMetadataReader GgufFile::metadata_reader() const {
  return GgufMetadataReader(metadata_, files_.front().path().string());
}

const GgufFileTensor* GgufFile::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const GgufFileTensor& tensor, std::string_view key) { return tensor.name < key; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

bool is_gguf_path(const std::filesystem::path& path) {
  std::error_code error;
  if (lower_case(path.extension().string()) == ".gguf") {
    return !std::filesystem::is_directory(path, error);
  }
  // Opening a FIFO would block until somebody writes into it.
  if (!std::filesystem::is_regular_file(path, error)) return false;
  char begin[kGgufMagic.size()] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
  return std::string_view(begin, sizeof begin) == kGgufMagic;
}

}  // namespace forerun
