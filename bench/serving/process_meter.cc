#include "serving/process_meter.h"

#include <filesystem>
#include <fstream>

namespace forerun::bench {

namespace fs = std::filesystem;

CpuTime cpu_time_of(pid_t process, const std::string& thread_name) {
  CpuTime time;
  std::error_code error;
  for (const auto& thread :
       fs::directory_iterator("/proc/" + std::to_string(process) + "/task", error)) {
    std::ifstream name_file(thread.path() / "comm"), times(thread.path() / "schedstat");
    std::string name;
    double on_cpu_ns = 0.0;
    if (!std::getline(name_file, name) || !(times >> on_cpu_ns)) continue;
    time.all_s += 1e-9 * on_cpu_ns;
    if (name == thread_name) time.thread_s += 1e-9 * on_cpu_ns;
  }
  return time;
}

double resident_mib_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kName = "VmRSS:";
    if (line.starts_with(kName)) return std::stod(line.substr(kName.size())) / 1024.0;
  }
  return 0.0;
}

double load_average() {
  std::ifstream file("/proc/loadavg");
  double minute = 0.0;
  file >> minute;
  return minute;
}

}  // namespace forerun::bench
