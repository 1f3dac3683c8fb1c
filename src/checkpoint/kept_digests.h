// Digests of one file's tensors, or of its chunks, kept between starts. Internal to checkpoint/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace forerun {

// The state of a file to which kept digests belong; any difference invalidates them.
struct FileState {
  std::string path;  // absolute
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t modified_ns = 0;  // mtime
  int64_t changed_ns = 0;   // ctime, which a copy that restores mtime cannot set

  bool operator==(const FileState&) const = default;
};

// Returns the state of an open file; nothing if the system does not tell it.
std::optional<FileState> state_of_file(const std::filesystem::path& path, int descriptor);
// Returns whether a change at `now_ns` (of the system's clock) would give the file another time
// than in `state`.
bool is_settled(const FileState& state, int64_t now_ns);

// Digests by the offset of the first byte of their tensor or chunk. Two tensors of one file have
// the same offset only if one is empty. Tensors and chunks are kept in folders of their own.
using DigestsByPlace = std::map<int64_t, std::string>;

// Returns the digests in `text`, the contents of a file of kept digests; nothing if they belong to
// another state or `text` is malformed.
std::optional<DigestsByPlace> parse_kept_digests(std::string_view text, const FileState& state);
std::string write_kept_digests(const FileState& state, const DigestsByPlace& digests);

// A folder with files of kept digests, which reads and replaces them. Several processes may use the
// folder at the same time.
class KeptDigests {
 public:
  // With an empty `folder`, nothing is kept.
  explicit KeptDigests(std::filesystem::path folder) : folder_(std::move(folder)) {}
  DigestsByPlace find(const FileState& state) const;
  // Adds digests to those that are kept for the file. Returns false if they cannot be written.
  bool keep(const FileState& state, const DigestsByPlace& digests) const;
  bool enabled() const { return !folder_.empty(); }

 private:
  std::filesystem::path file_of(const FileState& state) const;
  std::filesystem::path folder_;
};

}  // namespace forerun
