// Guesses by n-grams: the tokens that followed earlier occurrences of the last n tokens, longest n
// first.
//
// Only the `max_scanned` most recent occurrences of an n-gram count. Shorter n-grams share the
// probability that longer ones leave to unseen tokens (the escape mass of PPM's method C). Memory:
// 16 bytes and about three hash entries per token. Matches are compared with the tokens, so hash
// collisions do no harm.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "drafts/draft_source.h"

namespace forerun {

class NgramSource : public DraftSource {
 public:
  static constexpr int32_t kMaxOrder = 4;
  struct Params {
    int32_t max_order = kMaxOrder;  // n, 1 to kMaxOrder
    int32_t min_order = 2;          // 1 to max_order
    int32_t max_scanned = 32;       // number of occurrences of an n-gram that are examined
  };
  NgramSource() : NgramSource(Params{}) {}
  // Values out of range are clamped.
  explicit NgramSource(const Params& params);

  void observe(std::span<const TokenId> tokens) override;
  void propose(std::span<const TokenId> path, int32_t count,
               std::vector<Candidate>& out) const override;

 private:
  struct Order {
    // The position after the latest occurrence of an n-gram, by the n-gram's hash.
    std::unordered_map<uint64_t, int32_t> latest;
    // For each token position, the position after the previous occurrence of its n-gram; -1 if
    // none.
    std::vector<int32_t> previous;
  };
  struct Successor {
    TokenId token = 0;
    int32_t count = 0;
  };

  // Finds the tokens that followed `context` (n tokens), sorted by count, then by recency.
  void successors(std::span<const TokenId> context, std::vector<Successor>& out) const;

  Params params_;
  std::vector<TokenId> tokens_;
  std::vector<Order> orders_;  // orders_[n - 1]; entries below min_order are unused
  mutable std::vector<TokenId> tail_;
  mutable std::vector<Successor> successors_;
};

}  // namespace forerun
