// The digests of one file's tensors as they are kept between starts. Internal to checkpoint/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace forerun {

// The state of a file for which kept digests hold; any difference makes them void.
struct FileState {
  std::string path;  // absolute
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t modified_ns = 0;  // mtime
  int64_t changed_ns = 0;   // ctime, which a copy that sets mtime back cannot set

  bool operator==(const FileState&) const = default;
};

// The state of an open file; nothing where the system does not tell it.
std::optional<FileState> state_of_file(const std::filesystem::path& path, int descriptor);
// Whether a change at `now_ns` (of the system's clock) would get another time than the file has in
// `state`.
bool is_settled(const FileState& state, int64_t now_ns);

// Digests by the offset of their tensor's first byte: two tensors of one file share an offset only
// where one is empty.
using DigestsByPlace = std::map<int64_t, std::string>;

// The digests in `text`, the content of a file of kept digests; nothing where they are for another
// state, or `text` is malformed.
std::optional<DigestsByPlace> parse_kept_digests(std::string_view text, const FileState& state);
std::string write_kept_digests(const FileState& state, const DigestsByPlace& digests);

// Reads and replaces the files of kept digests in a folder. Several processes may use the folder at
// the same time.
class KeptDigests {
 public:
  // `folder` empty: nothing is kept.
  explicit KeptDigests(std::filesystem::path folder) : folder_(std::move(folder)) {}
  DigestsByPlace find(const FileState& state) const;
  // Adds to the digests that are kept for the file. False where they cannot be written.
  bool keep(const FileState& state, const DigestsByPlace& digests) const;
  bool enabled() const { return !folder_.empty(); }

 private:
  std::filesystem::path file_of(const FileState& state) const;
  std::filesystem::path folder_;
};

}  // namespace forerun
