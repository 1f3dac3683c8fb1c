// The folder with the files of one launch: those of mpirun's session, and the memory that its
// processes on one machine share. Each launch has its own folder, so that removing the folder
// removes all files that a crash has left.
#pragma once

#include <filesystem>
#include <string>

#include "forerun/status.h"

namespace forerun {

class LaunchFolder {
 public:
  // Creates the folder below /tmp, readable by this user only. First removes the folders of
  // launches with dead supervisors.
  static Result<LaunchFolder> make();
  LaunchFolder(LaunchFolder&& other) noexcept;
  LaunchFolder& operator=(LaunchFolder&&) = delete;
  // Removes the folder on this machine.
  ~LaunchFolder();

  // Returns "forerun-HOST-PROCESS-LETTERS", with the supervisor's host and process number.
  // Processes of the launch on other hosts create folders of this name there.
  const std::string& name() const { return name_; }
  std::filesystem::path session() const { return session_folder(name_); }
  std::filesystem::path memory() const { return memory_folder(name_); }

  static std::filesystem::path session_folder(const std::string& name);
  static std::filesystem::path memory_folder(const std::string& name);
  // Returns whether it is a name that make() gives.
  static bool is_name(const std::string& name);

  // Must be called in a process of the launch that still has only one thread. On a machine other
  // than the supervisor's, starts a process (the sweeper) that removes the launch's files there
  // once this process's parent, mpirun's daemon, has ended. Until then the sweeper holds a lock on
  // the folders.
  static void leave_sweeper(const std::string& name);
  // Removes the folders that launches of other machines' supervisors have left on this machine:
  // those that no sweeper holds and in which no file was created for ten minutes.
  static void remove_abandoned();

 private:
  explicit LaunchFolder(std::string name) : name_(std::move(name)) {}
  std::string name_;  // empty: moved from
};

}  // namespace forerun
