#include "supervisor/launch_folder.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
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

// Returns the prefix of folder names of this machine's supervisors. It includes the host, since
// process numbers are valid on one machine only, and other machines also have folders of shared
// memory.
std::string own_prefix() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return kPrefix + std::to_string(std::hash<std::string_view>()(host.data())) + "-";
}

// Returns the pid of the supervisor in the name of a launch's folder on this machine; 0 for other
// names.
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

// Within this time every starting launch has locked its folder.
constexpr time_t kAbandonedAfter_s = 600;

int open_folder(const fs::path& folder) {
  return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void remove_abandoned_in(const char* parent) {
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!LaunchFolder::is_name(name) || name.starts_with(own_prefix())) continue;
    const int folder = open_folder(it->path());
    if (folder < 0) continue;
    struct stat about {};
    const bool is_its_own = fstat(folder, &about) == 0 && about.st_uid == geteuid();
    const bool is_old = std::time(nullptr) - about.st_mtime > kAbandonedAfter_s;
    const bool is_free = flock(folder, LOCK_EX | LOCK_NB) == 0;
    close(folder);
    if (is_its_own && is_free && is_old) remove_all_of(it->path());
  }
}

// Waits until the process has ended.
void wait_for_end(pid_t process) {
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (descriptor >= 0) {
    pollfd event{descriptor, POLLIN, 0};
    while (poll(&event, 1, -1) < 0 && errno == EINTR) {
    }
    close(descriptor);
    return;
  }
  constexpr timespec kBetweenLooks{0, 200'000'000};
  while (kill(process, 0) == 0) nanosleep(&kBetweenLooks, nullptr);
}

}  // namespace

void LaunchFolder::remove_abandoned() {
  remove_abandoned_in(kFiles);
  remove_abandoned_in(kMemory);
}

void LaunchFolder::leave_sweeper(const std::string& name) {
  if (name.starts_with(own_prefix())) return;  // this machine's supervisor removes them
  const pid_t daemon = getppid();
  if (fork() != 0) return;
  setsid();
  prctl(PR_SET_NAME, "forerun-sweeper");  // the name that ps shows
  // Readers of the launch's output wait for its end, so this process must not hold it open.
  if (close_range(0, ~0U, 0) != 0) {
    for (int descriptor = 0; descriptor < 1024; ++descriptor) close(descriptor);
  }
  for (int descriptor = 0; descriptor <= STDERR_FILENO; ++descriptor) open("/dev/null", O_RDWR);
  for (const fs::path& folder : {session_folder(name), memory_folder(name)}) {
    mkdir(folder.c_str(), S_IRWXU);
    flock(open_folder(folder), LOCK_SH);  // held until this process ends
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
  wait_for_end(daemon);
  remove_all_of(session_folder(name));
  remove_all_of(memory_folder(name));
  _exit(0);
}

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
