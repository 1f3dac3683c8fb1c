// The digests of one file's tensors as they are kept between starts. Internal to checkpoint/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace forerun {

// What must be as it was for kept digests to hold.
struct FileState {
  std::string path;  // absolute
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t modified_ns = 0;  // mtime
  int64_t changed_ns = 0;   // ctime, which a copy that sets mtime back cannot set

  bool operator==(const FileState&) const = default;
};

// The state of an open file; nothing where the system does not say.
std::optional<FileState> state_of_file(const std::filesystem::path& path, int descriptor);
// Whether a change at `now_ns`, of the system's clock, would show in the times of change.
bool is_settled(const FileState& state, int64_t now_ns);

// By the offset of a tensor's first byte: those of one file overlap only where they are empty.
using DigestsByPlace = std::map<int64_t, std::string>;

// What `text`, of a file of kept digests, has for a file in this state: nothing where it is for
// another state or is no such text.
std::optional<DigestsByPlace> parse_kept_digests(std::string_view text, const FileState& state);
std::string write_kept_digests(const FileState& state, const DigestsByPlace& digests);

// Reads and replaces those files in a folder. Several processes may at a time.
class KeptDigests {
 public:
  // `folder` empty: nothing is kept.
  explicit KeptDigests(std::filesystem::path folder) : folder_(std::move(folder)) {}
  DigestsByPlace find(const FileState& state) const;
  // Adds to what is kept of the file. False where it cannot be written.
  bool keep(const FileState& state, const DigestsByPlace& digests) const;
  bool enabled() const { return !folder_.empty(); }

 private:
  std::filesystem::path file_of(const FileState& state) const;
  std::filesystem::path folder_;
};

}  // namespace forerun
