#include "checkpoint/opening_ranges.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <system_error>

namespace forerun {
namespace {

constexpr std::array<std::string_view, 4> kSideFileEndings = {".json", ".jinja", ".model", ".txt"};
// A description of a model is far smaller; what is larger is something else.
constexpr std::uintmax_t kMaxSideFileBytes = 256 << 20;

bool is_side_file(const std::filesystem::directory_entry& entry) {
  const std::string ending = entry.path().extension().string();
  std::error_code error;
  return std::find(kSideFileEndings.begin(), kSideFileEndings.end(), ending) !=
             kSideFileEndings.end() &&
         entry.is_regular_file(error) && entry.file_size(error) <= kMaxSideFileBytes && !error;
}

}  // namespace

FileRange range_of(const Checkpoint& checkpoint, const RawTensor& tensor) {
  const auto begin = static_cast<uint64_t>(checkpoint.offset_of(tensor));
  return {checkpoint.file_of(tensor), begin, begin + tensor.bytes.size()};
}

std::vector<FileRange> opening_ranges(const Checkpoint& checkpoint) {
  std::map<std::filesystem::path, uint64_t> first_tensor;
  for (const std::filesystem::path& file : checkpoint.weight_files()) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(file, error);
    first_tensor[file] = error ? 0 : size;
  }
  for (const RawTensor& tensor : checkpoint.tensors()) {
    const FileRange range = range_of(checkpoint, tensor);
    uint64_t& first = first_tensor[range.file];
    first = std::min(first, range.begin);
  }
  std::vector<FileRange> ranges;
  ranges.reserve(first_tensor.size());
  for (const auto& [file, first] : first_tensor) ranges.push_back({file, 0, first});
  for (const RawTensor* const tensor : checkpoint.read_tensors()) {
    ranges.push_back(range_of(checkpoint, *tensor));
  }
  return ranges;
}

Result<std::vector<std::filesystem::path>> side_files(const Checkpoint& checkpoint) {
  std::vector<std::filesystem::path> files;
  if (checkpoint.gguf() != nullptr) return files;
  std::error_code error;
  const std::filesystem::directory_iterator entries(checkpoint.path(), error);
  if (error) {
    return Status(StatusCode::kNotFound, checkpoint.path().string() + ": " + error.message());
  }
  for (const std::filesystem::directory_entry& entry : entries) {
    if (is_side_file(entry)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace forerun
