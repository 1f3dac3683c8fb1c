// A folder of small text files, one per key, with the measurements of earlier starts on a machine
// and its models. Files are replaced as a whole (written to a temporary name, then renamed), so
// processes that start at the same time may share a folder.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "forerun/status.h"

namespace forerun {

// All facts that a file's content depends on, by name. UTF-8.
using CostKey = std::map<std::string, std::string>;

class KeyedFolder {
 public:
  // The folder need not exist. With an empty path nothing is found or kept.
  explicit KeyedFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  bool enabled() const { return !folder_.empty(); }
  // Returns the key's file. Its name is a hash of the key; readers compare the key inside it.
  std::filesystem::path file_of(const CostKey& key) const;
  // Returns the content of the key's file; nothing if there is none. Fails on a file that cannot be
  // read or is larger than 1 MiB.
  Result<std::optional<std::string>> read(const CostKey& key) const;
  // Replaces the key's file, and creates the folder if there is none. After a failure the file is
  // unchanged.
  Status write(const CostKey& key, const std::string& text) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace forerun
