#include "drafts/union_source.h"

#include <algorithm>

namespace forerun {

void UnionSource::observe(std::span<const TokenId> tokens) {
  for (auto& source : sources_) source->observe(tokens);
}

void UnionSource::propose(std::span<const TokenId> path, int32_t count,
                          std::vector<Candidate>& out) const {
  out.clear();
  for (const auto& source : sources_) {
    source->propose(path, count, source_guesses_);
    for (const Candidate& candidate : source_guesses_) {
      const auto same = std::find_if(
          out.begin(), out.end(), [&](const Candidate& c) { return c.token == candidate.token; });
      if (same == out.end()) {
        out.push_back(candidate);
      } else {
        same->logprob = std::max(same->logprob, candidate.logprob);
      }
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logprob > b.logprob; });
  if (out.size() > static_cast<size_t>(std::max(count, 0))) out.resize(static_cast<size_t>(count));
}

}  // namespace forerun
