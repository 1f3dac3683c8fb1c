#include "supervisor/launch_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>

namespace forerun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "forerun-";
constexpr const char* kFiles = "/tmp";
constexpr const char* kMemory = "/dev/shm";

// What names of this machine's supervisors begin with: numbers of processes mean something here
// alone, and folders of memory are made on other machines too.
std::string own_prefix() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return kPrefix + std::to_string(std::hash<std::string_view>()(host.data())) + "-";
}

// The supervisor's process, by a name of this machine; 0: it is none.
pid_t process_of(const std::string& name) {
  const std::string prefix = own_prefix();
  if (!name.starts_with(prefix)) return 0;
  pid_t process = 0;
  const char* const begin = name.data() + prefix.size();
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(begin, end, process);
  const bool good = error == std::errc() && stopped < end && *stopped == '-' && process > 0;
  return good ? process : 0;
}

void remove_all_of(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

bool is_own(const fs::path& folder) {
  struct stat about {};
  return lstat(folder.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid();
}

void remove_left_over(const char* parent) {
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    const pid_t process = process_of(it->path().filename().string());
    const bool is_gone = process > 0 && kill(process, 0) != 0 && errno == ESRCH;
    if (is_gone && is_own(it->path())) remove_all_of(it->path());
  }
}

}  // namespace

fs::path LaunchFolder::session_folder(const std::string& name) { return fs::path(kFiles) / name; }
fs::path LaunchFolder::memory_folder(const std::string& name) { return fs::path(kMemory) / name; }

bool LaunchFolder::is_name(const std::string& name) {
  return name.starts_with(kPrefix) && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-';
         });
}

Result<LaunchFolder> LaunchFolder::make() {
  remove_left_over(kFiles);
  remove_left_over(kMemory);
  std::string path =
      std::string(kFiles) + "/" + own_prefix() + std::to_string(getpid()) + "-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return Status(StatusCode::kResourceExhausted,
                  "launch: no folder " + path + ": " + std::strerror(errno));
  }
  return LaunchFolder(fs::path(path).filename().string());
}

LaunchFolder::LaunchFolder(LaunchFolder&& other) noexcept : name_(std::exchange(other.name_, {})) {}

LaunchFolder::~LaunchFolder() {
  if (name_.empty()) return;
  remove_all_of(session());
  remove_all_of(memory());
}

}  // namespace forerun
