// TokenMasks: which tokens may come next in a grammar's state, one bit a token.
//
// One object per tokenizer serves all grammars and all threads. A mask is put together from those
// of the state's nodes (node_mask.h); both are kept, masks by state and node masks by node, the
// latter across grammars where a rule is the same in both (every schema's strings and numbers).
//
// Once a tokenizer:  TokenMasks masks(std::make_shared<VocabularyTrie>(tokenizer));
// Once a request:    compile a Grammar and masks.prepare(grammar), off the engine's thread.
// A token:           bool may_end = masks.write(state, bits);  // end tokens beside the bits
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

// Steps are those of a walker (walker.h), some 10 ns each: counted, not timed, so that every
// machine refuses the same.
struct TokenMaskLimits {
  size_t node_bytes = 128 << 20;  // kept masks of nodes, both generations together
  size_t state_bytes = 64 << 20;  // kept masks of states
  // Steps that one node's mask may take. At 128k tokens the mask of a node that reads everything
  // takes less than a tenth of them.
  uint64_t node_steps = 5'000'000;
  // Steps that one state's mask may take, beside prepared nodes; usual masks need some hundreds.
  uint64_t state_steps = 4'000'000;
  uint64_t prepare_steps = 30'000'000;  // steps after which prepare() leaves the other nodes for
                                        // later
};

// A state's mask as it is kept, shared by all who need it.
struct StateMask {
  // Bit i % 32 of word i / 32 is set if the state accepts token i's bytes; mask_words() words.
  std::vector<uint32_t> bits;
  // What it costs where nothing but the grammar's prepared nodes is kept: a function of grammar,
  // vocabulary and state, whoever asks and whatever was kept when it was made.
  uint64_t steps = 0;
  bool too_costly = false;  // past the limits; then no bit is there
  size_t size_bytes() const { return sizeof(StateMask) + bits.size() * sizeof(uint32_t); }
};

// Keeps values under keys, up to a size: when a generation is full it becomes the old one and the
// one before is dropped; what is found in the old one moves to the new. Not thread-safe.
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

  // The mask of `state`; null where the calling thread would need more than `max_steps` for it,
  // which is never so for UINT64_MAX. Adds the steps that it took to `steps`. `prepared`: what
  // prepare() has said of the state's grammar.
  std::shared_ptr<const StateMask> find(const GrammarState& state, uint32_t prepared,
                                        uint64_t max_steps, uint64_t& steps);

  // Writes the mask's words, and 0 to those of `words` beyond them; `words` must not be shorter. No
  // bit is set where the mask is too costly. Returns whether the reply may end here, so whether end
  // tokens are allowed beside the set bits; where it may not and no bit is set, the vocabulary
  // lacks the bytes to go on.
  bool write(const GrammarState& state, std::span<uint32_t> words);

  // Computes what find() would compute when it first comes to each node of `grammar`, up to
  // prepare_steps and half of what is kept, so that a request that has been prepared where it is
  // submitted rarely waits for a mask. A node costs microseconds, or a millisecond where most of
  // the vocabulary is possible. Returns how many of the grammar's first nodes have been prepared:
  // the same whenever it is called.
  //
  // kResourceExhausted where one of them takes more than node_steps: it reads texts in so many ways
  // at once that no mask there would be made.
  Result<uint32_t> prepare(const Grammar& grammar);
  // Does what prepare() does, but returns nothing if masks that are not kept yet take more than
  // `max_steps` of this thread. The masks that it has made by then are kept.
  Result<std::optional<uint32_t>> prepare_within(const Grammar& grammar, uint64_t max_steps);

  // Forgets every mask: for measuring.
  void clear();

 private:
  // A walk's bounds: `spent` of what the caller may spend, `charged` of what a mask may cost.
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

  // Null where it would take more than `max_steps`.
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
