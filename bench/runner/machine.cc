#include "runner/machine.h"

#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <thread>

namespace forerun::bench {
namespace {

std::string first_line_of(const char* command) {
  std::string line;
  if (std::FILE* pipe = popen(command, "r")) {
    std::array<char, 128> buffer{};
    if (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) line = buffer.data();
    pclose(pipe);
  }
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  return line;
}

}  // namespace

MachineFacts machine_facts() {
  MachineFacts facts;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    facts.processor = line.substr(line.find(':') + 2);
    break;
  }
  facts.cores = static_cast<int>(std::thread::hardware_concurrency());
  const std::time_t now = std::time(nullptr);
  std::array<char, 32> buffer{};
  std::strftime(buffer.data(), buffer.size(), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  facts.date = buffer.data();
  facts.commit = first_line_of("git describe --always --dirty 2>/dev/null");
  if (facts.commit.empty()) facts.commit = "unknown";
  return facts;
}

}  // namespace forerun::bench
