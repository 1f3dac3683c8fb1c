#include "drafts/suffix_automaton_source.h"

#include <algorithm>
#include <cmath>

namespace forerun {
namespace {

// The number of match lengths that are mixed, and of edges per state that are examined. They bound
// the work of one proposal when many different tokens have followed a short context.
constexpr int32_t kMaxLevels = 3;
constexpr int32_t kMaxEdges = 64;

}  // namespace

void SuffixAutomatonSource::observe(std::span<const TokenId> tokens) {
  for (TokenId token : tokens) automaton_.append(token);
}

void SuffixAutomatonSource::propose(std::span<const TokenId> path, int32_t count,
                                    std::vector<Candidate>& out) const {
  out.clear();
  if (count <= 0) return;
  SuffixAutomaton::Match match = automaton_.end();
  for (TokenId token : path) match = automaton_.step(match, token);

  float mass = 1.0f;
  for (int32_t level = 0; level < kMaxLevels && match.length >= std::max(min_match_, 1); ++level) {
    int32_t total = 0;
    int32_t distinct = 0;
    const int32_t first = automaton_.first_edge(match.state);
    for (int32_t e = first; e != SuffixAutomaton::kNone && distinct < kMaxEdges;
         e = automaton_.edge(e).next) {
      total += automaton_.edge(e).count;
      ++distinct;
    }
    if (distinct > 0) {
      const float unseen =
          static_cast<float>(distinct) * 2.0f / (1.0f + static_cast<float>(match.length));
      const float unit = mass / (static_cast<float>(total) + unseen);
      int32_t looked_at = 0;
      for (int32_t e = first; e != SuffixAutomaton::kNone && looked_at < kMaxEdges;
           e = automaton_.edge(e).next, ++looked_at) {
        const float p = unit * static_cast<float>(automaton_.edge(e).count);
        const TokenId token = automaton_.edge(e).token;
        const auto same = std::find_if(out.begin(), out.end(), [&](const Candidate& candidate) {
          return candidate.token == token;
        });
        // `logprob` holds probabilities here; the end of the function takes their logs.
        if (same == out.end()) {
          out.push_back({token, p});
        } else {
          same->logprob += p;
        }
      }
      mass = unit * unseen;
    }
    match = automaton_.shorter(match);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logprob > b.logprob; });
  if (out.size() > static_cast<size_t>(count)) out.resize(static_cast<size_t>(count));
  for (Candidate& candidate : out) candidate.logprob = std::log(candidate.logprob);
}

}  // namespace forerun
