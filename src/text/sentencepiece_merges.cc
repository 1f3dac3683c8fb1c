#include "text/sentencepiece_merges.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/utf8.h"

namespace forerun::text {

std::vector<IdPair> derive_merges(const TokenTable& vocab, std::span<const float> scores,
                                  std::span<const uint8_t> may_join) {
  struct Candidate {
    float score;
    uint32_t left_chars, right_chars;
    IdPair pair;
  };
  std::vector<Candidate> candidates;
  candidates.reserve(2 * scores.size());
  const int32_t end_id = std::min(vocab.end_id(), static_cast<int32_t>(scores.size()));
  for (int32_t id = 0; id < end_id; ++id) {
    if (!vocab.has(id) || may_join[static_cast<size_t>(id)] == 0) continue;
    const std::string_view token = vocab.text(id);
    float score = scores[static_cast<size_t>(id)];
    if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
    const uint32_t chars = static_cast<uint32_t>(count_code_points(token));
    uint32_t left_chars = 0;
    for (size_t cut = 0; cut < token.size();) {
      cut += first_code_point(token.substr(cut)).len_bytes;
      ++left_chars;
      if (cut == token.size()) break;
      const int32_t left = vocab.find(token.substr(0, cut));
      const int32_t right = left < 0 ? -1 : vocab.find(token.substr(cut));
      if (right >= 0) candidates.push_back({score, left_chars, chars - left_chars, {left, right}});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     if (a.score != b.score) return a.score > b.score;
                     if (a.left_chars != b.left_chars) return a.left_chars > b.left_chars;
                     return a.right_chars > b.right_chars;
                   });
  std::vector<IdPair> merges;
  merges.reserve(candidates.size());
  for (const Candidate& candidate : candidates) merges.push_back(candidate.pair);
  return merges;
}

}  // namespace forerun::text
