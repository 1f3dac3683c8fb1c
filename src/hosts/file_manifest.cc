#include "hosts/file_manifest.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/printable.h"
#include "wire/wire_writer.h"

namespace forerun {
namespace {

constexpr size_t kMaxNameBytes = 255;
// No file system has a larger one; so sums of offsets do not overflow.
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 60;

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos &&
         !name.starts_with(kFilledFolderMark);
}

Status refuse(const std::string& found, const std::string& accepted) {
  return Status(StatusCode::kCorrupt,
                "files of the model: found " + found + "; accepted: " + accepted);
}

}  // namespace

Status check_manifest(const FileManifest& manifest) {
  std::set<std::string_view> names;
  for (const ManifestFile& file : manifest.files) {
    if (!is_file_name(file.name) || !names.insert(file.name).second) {
      return refuse("a file named '" + printable(file.name) + "'",
                    "names without folders, each once, other than those that begin with " +
                        std::string(kFilledFolderMark));
    }
    if (file.bytes > kMaxFileBytes || file.digests.size() / kSha256Bytes != file.chunks() ||
        file.digests.size() % kSha256Bytes != 0) {
      return refuse(std::to_string(file.digests.size()) + " bytes of digests for " +
                        std::to_string(file.bytes) + " bytes of " + printable(file.name),
                    std::to_string(kSha256Bytes) + " for each MiB");
    }
  }
  if (!manifest.name.empty() && !is_file_name(manifest.name)) {
    return refuse("the name '" + printable(manifest.name) + "'", "that of a folder");
  }
  return {};
}

Status check_ranges(const FileManifest& manifest, std::span<const ManifestRange> ranges) {
  for (const ManifestRange& range : ranges) {
    if (range.file < manifest.files.size() && range.begin <= range.end &&
        range.end <= manifest.files[range.file].bytes) {
      continue;
    }
    return refuse("bytes " + std::to_string(range.begin) + " to " + std::to_string(range.end) +
                      " of file " + std::to_string(range.file),
                  "ranges within " + std::to_string(manifest.files.size()) + " files");
  }
  return {};
}

Status check_chunk(const FileManifest& manifest, const ChunkId& id) {
  if (id.file < manifest.files.size() && id.chunk < manifest.files[id.file].chunks()) return {};
  return refuse("chunk " + std::to_string(id.chunk) + " of file " + std::to_string(id.file),
                "chunks within " + std::to_string(manifest.files.size()) + " files");
}

std::string manifest_key(const FileManifest& manifest) {
  return hex(sha256(to_bytes(manifest.files)));
}

std::vector<ChunkId> chunks_of(std::span<const ManifestRange> ranges) {
  std::vector<ChunkId> chunks;
  for (const ManifestRange& range : ranges) {
    if (range.begin == range.end) continue;
    for (uint64_t chunk = range.begin / kFileChunkBytes; chunk * kFileChunkBytes < range.end;
         ++chunk) {
      chunks.push_back({range.file, chunk});
    }
  }
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return chunks;
}

std::string describe(const FileManifest& manifest, const ChunkId& id) {
  const ManifestFile& file = manifest.files[id.file];
  const uint64_t begin = id.chunk * kFileChunkBytes;
  return file.name + ", bytes " + std::to_string(begin) + " to " +
         std::to_string(begin + chunk_bytes(file.bytes, id.chunk));
}

}  // namespace forerun
