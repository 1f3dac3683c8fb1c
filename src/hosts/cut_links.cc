#include "hosts/cut_links.h"

#include <fstream>
#include <iterator>
#include <sstream>

namespace forerun {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{20};

}  // namespace

std::set<std::pair<int32_t, int32_t>> parse_cuts(std::string_view text) {
  std::set<std::pair<int32_t, int32_t>> cuts;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    int32_t one = 0, other = 0;
    if (!(fields >> one >> other)) continue;
    cuts.emplace(one, other);
    cuts.emplace(other, one);
  }
  return cuts;
}

CutLinks::CutLinks(std::unique_ptr<Transport> links, std::string file)
    : links_(std::move(links)), file_(std::move(file)) {}

Status CutLinks::send(int32_t to, Bytes message) {
  if (const auto now = Clock::now(); now - looked_ > kBetweenLooks) {
    looked_ = now;
    std::ifstream file(file_);
    cuts_ = parse_cuts(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  if (cuts_.count({rank(), to}) > 0) return {};
  return links_->send(to, std::move(message));
}

}  // namespace forerun
