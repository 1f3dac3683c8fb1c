#include "hosts/slow_links.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace forerun {

SlowLinks::SlowLinks(std::unique_ptr<Transport> links, const LinkSpeed& speed)
    : links_(std::move(links)), speed_(speed), to_(static_cast<size_t>(links_->num_ranks())) {}

Status SlowLinks::send(int32_t to, Bytes message) {
  const Clock::time_point now = Clock::now();
  Link& link = to_[static_cast<size_t>(to)];
  link.free = std::max(link.free, now);
  if (speed_.bytes_per_second > 0.0) {
    link.free += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
        static_cast<double>(message.size()) / speed_.bytes_per_second));
  }
  link.held.push_back({link.free + speed_.delay, std::move(message)});
  return release(now);
}

Status SlowLinks::release(Clock::time_point now) {
  for (size_t to = 0; to < to_.size(); ++to) {
    std::deque<Held>& held = to_[to].held;
    for (; !held.empty() && held.front().until <= now; held.pop_front()) {
      FORERUN_RETURN_IF_ERROR(
          links_->send(static_cast<int32_t>(to), std::move(held.front().message)));
    }
  }
  return {};
}

Result<std::optional<Received>> SlowLinks::poll() {
  FORERUN_RETURN_IF_ERROR(release(Clock::now()));
  return links_->poll();
}

bool SlowLinks::has_sent_all() const {
  return links_->has_sent_all() &&
         std::all_of(to_.begin(), to_.end(), [](const Link& link) { return link.held.empty(); });
}

}  // namespace forerun
