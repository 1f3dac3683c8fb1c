// Files from the coordinator to the stages: a stage asks for the chunks that it lacks, and the
// coordinator answers within the round of messages (Hosts::settle) that all stages end by a report.
//
// A stage has at most kMaxAsked chunks under way, which bounds the memory of both sides.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/open_file.h"
#include "forerun/status.h"
#include "hosts/file_manifest.h"
#include "hosts/hosts.h"
#include "hosts/received_files.h"

namespace forerun {

inline constexpr size_t kMaxAsked = 16;

// The coordinator's side. Thread rules: one thread.
class FileSender {
 public:
  // Opens the files of the manifest, in its order. Fails as OpenFile. `progress`: called after each
  // chunk with the bytes that have been sent and all that the stages have asked for so far; may be
  // null.
  using Progress = std::function<void(uint64_t sent_bytes, uint64_t all_bytes)>;
  static Result<std::unique_ptr<FileSender>> open(std::span<const std::filesystem::path> files,
                                                  FileManifest manifest, Progress progress);

  const FileManifest& manifest() const { return manifest_; }
  // Answers a kChunkAsk. Fails, naming the file, where it cannot be read, or where a stage asks
  // again since the file has changed; with kCorrupt where the ask is broken.
  Status answer(Hosts& hosts, const Incoming& incoming);
  uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  FileSender(FileManifest manifest, Progress progress)
      : manifest_(std::move(manifest)), progress_(std::move(progress)) {}
  Status check_unchanged(const ChunkId& id, std::span<const std::byte> content) const;
  void tell_progress(size_t rank, uint64_t left_bytes, uint64_t chunk);

  const FileManifest manifest_;
  const Progress progress_;
  std::vector<std::unique_ptr<OpenFile>> files_;
  // Bytes by rank: all that it lacked, and what it still lacks.
  std::vector<uint64_t> lacked_;
  std::vector<uint64_t> left_;
  uint64_t sent_bytes_ = 0;
};

// On a stage: gets the missing chunks of the ranges and writes them. Fails as ReceivedFiles does,
// as Hosts::next() does, and with kCorrupt if a chunk comes with another digest three times.
Status fetch_files(Hosts& hosts, ReceivedFiles& files, std::span<const ManifestRange> ranges);

}  // namespace forerun
