// A folder with copies of another host's files, of which only the chunks that were needed are
// there; the rest are holes. It belongs to one manifest, by whose digest it is named, so nothing in
// it is ever replaced by other bytes, and several processes may fill it at the same time.
//
// A list says which chunks have been compared with their digests since the machine was started. A
// chunk that is not in it is read and compared before it counts, so a copy that was interrupted, or
// lost in a power failure, is completed. Removing the folder removes the copy.
//
// Thread rules: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "hosts/file_manifest.h"

namespace forerun {

class ReceivedFiles {
 public:
  // Makes CACHE/NAME-KEY with the manifest's files at their sizes, where it is not there. The
  // manifest must pass check_manifest(). kResourceExhausted or kUnsupported, naming the folder and
  // --model-cache, where it cannot be made or written to.
  static Result<ReceivedFiles> open(const std::filesystem::path& cache, FileManifest manifest);
  ReceivedFiles(ReceivedFiles&& other) noexcept;
  ReceivedFiles& operator=(ReceivedFiles&&) = delete;
  ~ReceivedFiles();

  const std::filesystem::path& folder() const { return folder_; }
  const FileManifest& manifest() const { return manifest_; }

  // Returns the chunks of the ranges that are missing here. Reads and compares those that are not
  // in the list. Fails with kResourceExhausted if the disk has too little room for the missing
  // chunks.
  Result<std::vector<ChunkId>> find_missing(std::span<const ManifestRange> ranges);
  // Writes a chunk of the manifest and puts it into the list. Fails with kCorrupt, and
  // writes nothing, if its digest is another one.
  Status add(const ChunkId& id, std::span<const std::byte> content);
  // Empties the list, so that the next start compares everything: some bytes here have changed
  // since they were compared.
  void doubt();

 private:
  ReceivedFiles(std::filesystem::path folder, FileManifest manifest);
  Status open_files();
  void read_list();
  void note(const ChunkId& id);
  bool matches(const ChunkId& id, std::vector<std::byte>& buffer) const;
  Status check_room(std::span<const ChunkId> missing) const;
  Status cannot_write(const std::filesystem::path& file, int error) const;

  std::filesystem::path folder_;
  std::filesystem::path list_;
  FileManifest manifest_;
  std::vector<int> descriptors_;  // of the files
  int list_descriptor_ = -1;
  std::vector<std::vector<bool>> compared_;  // by file and chunk
};

}  // namespace forerun
