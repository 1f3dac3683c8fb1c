// Where the files of one launch are: those of mpirun's session, and the memory that processes on
// one machine share. They are the launch's own, so that whatever dies in whatever state leaves
// nothing that does not go with them.
#pragma once

#include <filesystem>
#include <string>

#include "forerun/status.h"

namespace forerun {

class LaunchFolder {
 public:
  // Makes it, below /tmp, readable by this user alone. Folders of launches whose supervisor has
  // died are removed first.
  static Result<LaunchFolder> make();
  LaunchFolder(LaunchFolder&& other) noexcept;
  LaunchFolder& operator=(LaunchFolder&&) = delete;
  // Removes all of it that is on this machine.
  ~LaunchFolder();

  // "forerun-HOST-PROCESS-LETTERS", numbers of the supervisor's; a process of the launch makes its
  // own from it on another host.
  const std::string& name() const { return name_; }
  std::filesystem::path session() const { return session_folder(name_); }
  std::filesystem::path memory() const { return memory_folder(name_); }

  static std::filesystem::path session_folder(const std::string& name);
  static std::filesystem::path memory_folder(const std::string& name);
  // Whether it is a name that make() gives.
  static bool is_name(const std::string& name);

 private:
  explicit LaunchFolder(std::string name) : name_(std::move(name)) {}
  std::string name_;  // empty: moved from
};

}  // namespace forerun
