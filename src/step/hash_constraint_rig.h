// A constraint without a grammar, for tests: a hash of the output so far decides which tokens it
// allows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "step/token_constraint.h"

namespace forerun {

class HashConstraint : public TokenConstraint {
 public:
  // After one token in `astray_one_in`, no output continues; 0 turns this off.
  explicit HashConstraint(uint64_t seed, uint64_t astray_one_in = 64)
      : seed_(seed), astray_one_in_(astray_one_in) {}

  State start() const override { return std::make_shared<const uint64_t>(seed_); }
  State after(const State& state, TokenId token) const override {
    ++steps;
    const uint64_t next = mix(of(state), static_cast<uint64_t>(token) + 1);
    if (astray_one_in_ > 0 && next % astray_one_in_ == 0) return nullptr;
    return std::make_shared<const uint64_t>(next);
  }
  // Allows many tokens or few in turn, and token 1 always.
  void allow(const State& state, std::span<uint32_t> words) const override {
    std::fill(words.begin(), words.end(), 0u);
    const uint64_t of_state = of(state);
    for (size_t token = 0; token < 32 * words.size(); ++token) {
      const uint64_t drawn = mix(of_state, token + 99) >> 40;
      const bool allowed = of_state % 2 == 0 ? drawn % 3 > 0 : drawn % 16 == 0;
      if (allowed || token == 1) words[token / 32] |= 1u << (token % 32);
    }
  }
  mutable std::atomic<int64_t> steps = 0;  // calls of after()

 private:
  static uint64_t of(const State& state) { return *static_cast<const uint64_t*>(state.get()); }
  static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
  }
  const uint64_t seed_;
  const uint64_t astray_one_in_;
};

}  // namespace forerun
