// The files of a conversion. They are written under the name OUT.part, a file or a directory, and
// get their own name at the end, so that what has the name OUT is always whole.
//
// Thread rules: write() may be called from many threads once every file has been added; the rest by
// one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"

namespace forerun {

class OutputFiles {
 public:
  // Refuses an `out` that is there, unless `replace`. Refuses always: an `out` that is the input or
  // holds a file of it; a directory that holds anything but the files of a checkpoint; an OUT.part
  // that another process is writing. Removes what an earlier, broken conversion has left.
  // `needed_bytes` is compared with the room on the file system.
  static Result<OutputFiles> create(const Checkpoint& input, const std::filesystem::path& out,
                                    bool is_directory, bool replace, uint64_t needed_bytes);
  // Removes everything unless commit() has succeeded.
  ~OutputFiles();
  OutputFiles(OutputFiles&& other) noexcept;
  OutputFiles& operator=(OutputFiles&&) = delete;

  // Opens a file for writing; `name` is within the directory, or empty for the only file. Gives its
  // index.
  Result<size_t> add(std::string_view name);
  Status write(size_t file_idx, uint64_t offset, std::span<const std::byte> bytes) const;
  // Writes a whole small file.
  Status write_text(std::string_view name, std::string_view text);
  // Makes sure that the files are on the disk and closes them.
  Status sync();
  // After sync(): gives the files their name. Where it fails, `out` is what it was.
  Status commit();

 private:
  OutputFiles() = default;
  Status check_names(const Checkpoint& input) const;
  Status remove_old_part() const;
  Status create_part();
  Status failed(const std::filesystem::path& path, int error) const;

  std::filesystem::path out_, part_;
  bool is_directory_ = false;
  bool replace_ = false;
  bool is_open_ = false;  // part_ is there and is ours
  int lock_ = -1;         // a descriptor of part_, locked while it is ours
  uint64_t needed_bytes_ = 0;
  struct File {
    std::filesystem::path path;
    int descriptor = -1;
  };
  std::vector<File> files_;
};

// Reads a whole small file of the input.
Result<std::string> read_side_file(const std::filesystem::path& path);
// Whether a checkpoint's directory has such a file beside its weights: tokenizer.json and the like.
bool is_side_file(std::string_view name);

}  // namespace forerun
