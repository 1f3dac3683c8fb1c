// TokenMasks computes which tokens may come next in a grammar's state, one bit per token.
//
// One object per tokenizer serves all grammars and all threads. A mask is composed of those of the
// state's nodes (node_mask.h); both are cached, masks by state and node masks by node. Grammars
// share the latter for equal rules (every schema's strings and numbers).
//
// Once per tokenizer:  TokenMasks masks(std::make_shared<VocabularyTrie>(tokenizer));
// Once per request:    compile a Grammar and masks.prepare(grammar), off the engine's thread.
// Per token:           bool may_end = masks.write(state, bits);  // end tokens beside the bits
//                    state.accept(masks.vocabulary().token(id));
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/node_mask.h"
#include "grammar/vocabulary_trie.h"

namespace forerun::grammar {

struct Place;

// Steps are those of a walker (walker.h), about 10 ns each: counted, not timed, so that every
// machine refuses the same grammars.
struct TokenMaskLimits {
  size_t node_bytes = 128 << 20;  // cached masks of nodes, both generations together
  size_t state_bytes = 64 << 20;  // cached masks of states
  // The largest number of steps for one node's mask. At 128k tokens the mask of a node that reads
  // everything takes less than a tenth of it.
  uint64_t node_steps = 5'000'000;
  // The largest number of steps for one state's mask, in addition to prepared nodes; usual masks
  // need some hundreds.
  uint64_t state_steps = 4'000'000;
  // Steps after which prepare() leaves the other nodes for later.
  uint64_t prepare_steps = 30'000'000;
};

// A state's cached mask, shared by all its users.
struct StateMask {
  // Bit i % 32 of word i / 32 is set if the state accepts token i's bytes; mask_words() words.
  std::vector<uint32_t> bits;
  // The cost of the mask if only the grammar's prepared nodes are cached: a function of grammar,
  // vocabulary and state, independent of the caller and of the cache's content.
  uint64_t steps = 0;
  bool too_costly = false;  // exceeds the limits; then no bit is set
  size_t size_bytes() const { return sizeof(StateMask) + bits.size() * sizeof(uint32_t); }
};

// Caches values under keys, up to a size: when a generation is full it becomes the old one and the
// previous old one is dropped; values found in the old one move to the new. Not thread-safe.
template <class Value>
class TwoGenerations {
 public:
  using Pointer = std::shared_ptr<const Value>;
  explicit TwoGenerations(size_t max_bytes) : max_bytes_(max_bytes / 2) {}

  Pointer find(const Hash128& key) {
    if (const auto found = young_.find(key); found != young_.end()) return found->second;
    const auto found = old_.find(key);
    if (found == old_.end()) return nullptr;
    Pointer value = found->second;
    old_.erase(found);
    insert(key, value);
    return value;
  }
  void insert(const Hash128& key, Pointer value) {
    const size_t bytes = value->size_bytes() + 128;
    if (young_bytes_ + bytes > max_bytes_ && !young_.empty()) {
      old_ = std::move(young_);
      young_.clear();
      young_bytes_ = 0;
    }
    if (young_.try_emplace(key, std::move(value)).second) young_bytes_ += bytes;
  }
  void clear() {
    young_.clear();
    old_.clear();
    young_bytes_ = 0;
  }

 private:
  using Map = std::unordered_map<Hash128, Pointer, Hash128Hasher>;
  Map young_, old_;
  size_t young_bytes_ = 0;
  const size_t max_bytes_;
};

class TokenMasks {
 public:
  explicit TokenMasks(std::shared_ptr<const VocabularyTrie> vocabulary,
                      const TokenMaskLimits& limits = {});

  const VocabularyTrie& vocabulary() const { return *vocabulary_; }
  const TokenMaskLimits& limits() const { return limits_; }

  // Returns the mask of `state`; null if the calling thread would need more than `max_steps` for
  // it, which never happens with UINT64_MAX. Adds the steps taken to `steps`. `prepared` is the
  // result of prepare() for the state's grammar.
  std::shared_ptr<const StateMask> find(const GrammarState& state, uint32_t prepared,
                                        uint64_t max_steps, uint64_t& steps);

  // Writes the mask's words, and 0 to those of `words` beyond them; `words` must not be shorter.
  // Sets no bit if the mask is too costly. Returns whether the reply may end here, i.e. whether end
  // tokens are allowed in addition to the set bits. If it may not end and no bit is set, the
  // vocabulary lacks the bytes to continue.
  bool write(const GrammarState& state, std::span<uint32_t> words);

  // Computes in advance what find() would compute at the first visit of each node of `grammar`, up
  // to prepare_steps and half of the cache, so that a prepared request rarely waits for a mask. A
  // node costs microseconds, or a millisecond if most of the vocabulary is possible. Returns how
  // many of the grammar's first nodes have been prepared: the same at every call.
  //
  // Fails with kResourceExhausted if a node takes more than node_steps: it reads texts in so many
  // ways at once that no mask there would be made.
  Result<uint32_t> prepare(const Grammar& grammar);
  // Does what prepare() does, but returns nothing if uncached masks take more than `max_steps` of
  // this thread. The masks made by then stay cached.
  Result<std::optional<uint32_t>> prepare_within(const Grammar& grammar, uint64_t max_steps);

  // Drops every mask, for measurements.
  void clear();

 private:
  // A walk's limits: `spent` counts towards the caller's budget, `charged` towards a mask's limit.
  struct Budget {
    uint64_t max_spent = 0, spent = 0;
    uint64_t max_charged = 0, charged = 0;
    uint64_t left() const {
      return std::min(max_spent - std::min(spent, max_spent),
                      max_charged - std::min(charged, max_charged));
    }
    void take(uint64_t steps) {
      spent += steps;
      charged += steps;
    }
  };
  enum class Outcome : uint8_t { kDone, kLate, kTooCostly };

  // Returns null if it would take more than `max_steps`.
  std::shared_ptr<const NodeMask> node_mask(const Program& program, const Place& place,
                                            uint64_t max_steps, uint64_t& steps);
  Outcome compute(const GrammarState& state, uint32_t prepared, std::span<uint32_t> mask,
                  Budget& budget);

  std::shared_ptr<const VocabularyTrie> vocabulary_;
  std::mutex mutex_;  // guards the members below; never held while a mask is computed
  TwoGenerations<NodeMask> nodes_;
  TwoGenerations<StateMask> states_;
  const TokenMaskLimits limits_;
};

}  // namespace forerun::grammar
