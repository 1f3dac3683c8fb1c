#include "hosts/cut_links.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/status_macros.h"

namespace forerun {
namespace {

constexpr std::chrono::milliseconds kBetweenReads{20};

}  // namespace

std::set<std::pair<int32_t, int32_t>> parse_cuts(std::string_view text) {
  std::set<std::pair<int32_t, int32_t>> cuts;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    int32_t rank_a = 0, rank_b = 0;
    if (!(fields >> rank_a >> rank_b)) continue;
    cuts.emplace(rank_a, rank_b);
    cuts.emplace(rank_b, rank_a);
  }
  return cuts;
}

CutLinks::CutLinks(std::unique_ptr<Transport> links, std::string file)
    : links_(std::move(links)),
      file_(std::move(file)),
      held_(static_cast<size_t>(links_->num_ranks())) {}

Status CutLinks::release() {
  if (const auto now = Clock::now(); now - looked_ > kBetweenReads) {
    looked_ = now;
    std::ifstream file(file_);
    cuts_ = parse_cuts(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  for (size_t to = 0; to < held_.size(); ++to) {
    const auto rank_to = static_cast<int32_t>(to);
    if (cuts_.count({rank(), rank_to}) > 0) continue;
    for (std::deque<Bytes>& held = held_[to]; !held.empty(); held.pop_front()) {
      FORERUN_RETURN_IF_ERROR(links_->send(rank_to, std::move(held.front())));
    }
  }
  return {};
}

Status CutLinks::send(int32_t to, Bytes message) {
  held_[static_cast<size_t>(to)].push_back(std::move(message));
  return release();
}

Result<std::optional<Received>> CutLinks::poll() {
  FORERUN_RETURN_IF_ERROR(release());
  return links_->poll();
}

bool CutLinks::has_sent_all() const {
  return links_->has_sent_all() &&
         std::all_of(held_.begin(), held_.end(), [](const auto& held) { return held.empty(); });
}

}  // namespace forerun
