// The files of a conversion. They are written as OUT.part, a file or a directory, and renamed at
// the end, so that OUT is always complete.
//
// Once every file has been added, many threads may call write(); only one thread may call the other
// functions.
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
  // Refuses an existing `out` unless `replace` is set. Always refuses an `out` that is the input or
  // holds a file of it, a directory that holds other files than those of a checkpoint, and an
  // OUT.part that another process is writing. Removes the remains of an earlier, broken conversion.
  // Fails if the file system has less room than `needed_bytes`.
  static Result<OutputFiles> create(const Checkpoint& input, const std::filesystem::path& out,
                                    bool is_directory, bool replace, uint64_t needed_bytes);
  // Removes all files unless commit() has succeeded.
  ~OutputFiles();
  OutputFiles(OutputFiles&& other) noexcept;
  OutputFiles& operator=(OutputFiles&&) = delete;

  // Opens a file for writing and returns its index; `name` is relative to the directory, or empty
  // for a single file.
  Result<size_t> add(std::string_view name);
  Status write(size_t file_idx, uint64_t offset, std::span<const std::byte> bytes) const;
  // Writes a whole small file.
  Status write_text(std::string_view name, std::string_view text);
  // Flushes all files to the disk and closes them.
  Status sync();
  // Renames the files to their final name; must follow sync(). On an error `out` is unchanged.
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
  bool is_open_ = false;  // part_ exists and belongs to this object
  int lock_ = -1;         // a descriptor of part_, locked while this object owns it
  uint64_t needed_bytes_ = 0;
  struct File {
    std::filesystem::path path;
    int descriptor = -1;
  };
  std::vector<File> files_;
};

// Reads a small input file as a whole.
Result<std::string> read_side_file(const std::filesystem::path& path);
// Returns whether `name` is a file that a checkpoint's directory has beside its weights:
// tokenizer.json and the like.
bool is_side_file(std::string_view name);

}  // namespace forerun
