#include "supervisor/launch_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

namespace forerun {
namespace {

TEST(LaunchFolder, GoesWithItsObject) {
  std::filesystem::path session;
  {
    auto folder = LaunchFolder::make();
    ASSERT_TRUE(folder.ok());
    session = folder->session();
    EXPECT_TRUE(LaunchFolder::is_name(folder->name()));
    EXPECT_TRUE(std::filesystem::exists(session));
    std::filesystem::create_directories(session / "deep" / "er");
  }
  EXPECT_FALSE(std::filesystem::exists(session));
  EXPECT_FALSE(LaunchFolder::is_name("forerun-../../etc"));
  EXPECT_FALSE(LaunchFolder::is_name("other"));
}

// A folder named by another machine's supervisor: the process id in its name is not valid here.
TEST(LaunchFolder, WhatAnotherMachinesLaunchHasLeftGoesLater) {
  const std::string prefix = "forerun-1-" + std::to_string(getpid()) + "-";
  const auto make = [&](const char* letters, bool is_old) {
    const auto path = LaunchFolder::session_folder(prefix + letters);
    std::filesystem::create_directories(path / "ompi");
    if (is_old) {
      std::filesystem::last_write_time(
          path, std::filesystem::file_time_type::clock::now() - std::chrono::minutes(11));
    }
    return path;
  };
  const auto abandoned = make("aaaaaa", true), young = make("bbbbbb", false),
             held = make("cccccc", true);
  const int lock = open(held.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(lock, LOCK_SH), 0);
  LaunchFolder::remove_abandoned();
  EXPECT_FALSE(std::filesystem::exists(abandoned));
  EXPECT_TRUE(std::filesystem::exists(young));
  EXPECT_TRUE(std::filesystem::exists(held));
  close(lock);
  LaunchFolder::remove_abandoned();
  EXPECT_FALSE(std::filesystem::exists(held));
  std::filesystem::remove_all(young);
}

}  // namespace
}  // namespace forerun
