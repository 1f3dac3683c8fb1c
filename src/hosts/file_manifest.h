// A manifest describes files that hosts may get from the coordinator: their names, sizes, and the
// digest of each chunk (base/file_chunks.h). It knows nothing of the files' format.
//
// Thread rules: functions without state.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file_chunks.h"
#include "base/sha256.h"
#include "forerun/status.h"
#include "wire/bytes.h"

namespace forerun {

struct ManifestFile {
  std::string name;  // without a folder
  uint64_t bytes = 0;
  Bytes digests;  // SHA-256 of each chunk, one after another

  uint64_t chunks() const { return count_chunks(bytes); }
  std::span<const std::byte> digest(uint64_t chunk) const {
    return std::span(digests).subspan(chunk * kSha256Bytes, kSha256Bytes);
  }
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<ManifestFile> auto& file) {
  visit("name", file.name);
  visit("bytes", file.bytes);
  visit("digests", file.digests);
}

struct FileManifest {
  std::string name;  // the model's name, with which the folder's name begins
  std::vector<ManifestFile> files;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<FileManifest> auto& manifest) {
  visit("name", manifest.name);
  visit("files", manifest.files);
}

// A chunk by its place in the manifest.
struct ChunkId {
  uint32_t file = 0;
  uint64_t chunk = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): it means a literal 0 of the compiler's own code.
  auto operator<=>(const ChunkId&) const = default;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<ChunkId> auto& id) {
  visit("file", id.file);
  visit("chunk", id.chunk);
}

// Bytes [begin, end) of a file of the manifest.
struct ManifestRange {
  uint32_t file = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<ManifestRange> auto& range) {
  visit("file", range.file);
  visit("begin", range.begin);
  visit("end", range.end);
}

// Checks a manifest from another process: every name is unique, names no folder, and does not begin
// with kFilledFolderMark; sizes fit the digests. Fails with kCorrupt.
Status check_manifest(const FileManifest& manifest);
// Check that the ranges and the chunk lie within the manifest's files. Fail with kCorrupt.
Status check_ranges(const FileManifest& manifest, std::span<const ManifestRange> ranges);
Status check_chunk(const FileManifest& manifest, const ChunkId& id);

// Returns 64 digits that identify the files' names and contents.
std::string manifest_key(const FileManifest& manifest);

// Returns the chunks that hold the ranges, sorted, each once. The ranges must pass check_ranges().
std::vector<ChunkId> chunks_of(std::span<const ManifestRange> ranges);

// Returns "model.safetensors, bytes 1048576 to 2097152", for messages.
std::string describe(const FileManifest& manifest, const ChunkId& id);

}  // namespace forerun
