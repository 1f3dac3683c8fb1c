#include "checkpoint/tensor_digests.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/block_digests.h"
#include "checkpoint/content_digest.h"

namespace forerun {
namespace {

// Part of the digest's definition: the digest of a tensor is the digest of its blocks' digests.
constexpr int64_t kBlockBytes = int64_t{4} << 20;

std::string joined_digest(const std::vector<std::string>& of_blocks) {
  std::string all;
  for (const std::string& digest : of_blocks) all += digest;
  return content_digest(std::as_bytes(std::span(all.data(), all.size())));
}

using Files = std::map<std::filesystem::path, std::unique_ptr<DigestedFile>>;

Result<DigestedFile*> open_once(const std::filesystem::path& path, const KeptDigests& kept,
                                Files& files) {
  std::unique_ptr<DigestedFile>& file = files[path];
  if (file != nullptr) return file.get();
  file = std::make_unique<DigestedFile>(path, kept);
  FORERUN_RETURN_IF_ERROR(file->file.status());
  return file.get();
}

void keep_all(const KeptDigests& kept, const Files& files) {
  bool good = true;
  for (const auto& [path, file] : files) good = file->keep_made(kept) && good;
  if (!good) tell_digests_not_kept();
}

}  // namespace

Result<TensorDigests> digest_tensors(const Checkpoint& checkpoint,
                                     std::span<const RawTensor* const> tensors,
                                     const DigestOptions& options) {
  const KeptDigests kept(options.folder);
  Files files;
  TensorDigests result;
  result.tensors.resize(tensors.size());
  std::vector<FileBlock> blocks;
  std::vector<size_t> num_blocks(tensors.size());
  std::vector<std::pair<DigestedFile*, int64_t>> to_keep(tensors.size());
  for (size_t idx = 0; idx < tensors.size(); ++idx) {
    const RawTensor& tensor = *tensors[idx];
    const std::filesystem::path& path = checkpoint.file_of(tensor);
    const int64_t offset = checkpoint.offset_of(tensor);
    const auto size = static_cast<int64_t>(tensor.bytes.size());
    FORERUN_ASSIGN_OR_RETURN(DigestedFile* const file, open_once(path, kept, files));
    result.tensors[idx].file = path.filename().string();
    const auto found = file->kept.find(offset);
    if (found != file->kept.end() && size > 0) {
      result.tensors[idx].digest = found->second;
      continue;
    }
    if (size > 0) to_keep[idx] = {file, offset};
    result.read_bytes += size;
    for (int64_t at = 0; at < size; at += kBlockBytes) {
      blocks.push_back(
          {.file = &file->file, .offset = offset + at, .size = std::min(kBlockBytes, size - at)});
      ++num_blocks[idx];
    }
  }
  FORERUN_ASSIGN_OR_RETURN(
      const std::vector<std::string> digests,
      digest_blocks(blocks, options.threads, options.progress, content_digest));
  auto next = digests.begin();
  for (size_t idx = 0; idx < tensors.size(); ++idx) {
    std::string& digest = result.tensors[idx].digest;
    if (!digest.empty()) continue;
    const auto end = next + static_cast<std::ptrdiff_t>(num_blocks[idx]);
    digest = joined_digest({next, end});
    next = end;
    const auto& [file, offset] = to_keep[idx];
    if (file != nullptr) file->made[offset] = digest;
  }
  keep_all(kept, files);
  return result;
}

}  // namespace forerun
