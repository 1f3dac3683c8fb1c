#include "grammar/token_masks.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "grammar/configuration.h"
#include "grammar/walker.h"

namespace forerun::grammar {
namespace {

constexpr size_t kWordsOfStep = 64;  // words of a mask that are joined in the time of one step

// Returns the key of a node's mask. Rounds matter only if the mask is not by rounds itself, and
// only as far as one token can get: to the loop's bounds.
Hash128 key_of(const Program& program, const Place& place, size_t max_token_bytes) {
  const Node& node = program.nodes[place.node];
  const CompiledRule& rule = program.rules[node.rule];
  Hash128 key;
  if (rule.leaf) {
    key.mix(rule.content);
    for (const uint64_t bits : rule.follow) key.mix(bits);
  } else {
    key.mix(program.identity);
    key.mix(node.rule);
  }
  key.mix(place.node - rule.start);
  key.mix(rule.counted ? rule.initial_rounds + 1 : 0);
  if (rule.counted && !rule.leaf) {
    const auto near = [&](uint64_t distance) {
      return std::min<uint64_t>(distance, max_token_bytes + 1);
    };
    const bool below = place.rounds < rule.min_rounds;
    key.mix(rule.max_rounds == UINT32_MAX ? near(UINT32_MAX)
                                          : near(rule.max_rounds - place.rounds));
    key.mix(below ? near(rule.min_rounds - place.rounds) : 0);
  }
  return key;
}

}  // namespace

TokenMasks::TokenMasks(std::shared_ptr<const VocabularyTrie> vocabulary,
                       const TokenMaskLimits& limits)
    : vocabulary_(std::move(vocabulary)),
      nodes_(limits.node_bytes),
      states_(limits.state_bytes),
      limits_(limits) {}

std::shared_ptr<const StateMask> TokenMasks::find(const GrammarState& state, uint32_t prepared,
                                                  uint64_t max_steps, uint64_t& steps) {
  const Hash128 key = state.hash();
  {
    const std::lock_guard lock(mutex_);
    if (auto kept = states_.find(key)) return kept;
  }
  auto mask = std::make_shared<StateMask>();
  mask->bits.resize(vocabulary_->mask_words());
  Budget budget{.max_spent = max_steps, .max_charged = limits_.state_steps};
  const Outcome outcome = compute(state, prepared, mask->bits, budget);
  steps += budget.spent;
  if (outcome == Outcome::kLate) return nullptr;
  mask->steps = budget.charged;
  mask->too_costly = outcome == Outcome::kTooCostly;
  if (mask->too_costly) mask->bits = {};
  const std::lock_guard lock(mutex_);
  states_.insert(key, mask);
  return mask;
}

bool TokenMasks::write(const GrammarState& state, std::span<uint32_t> words) {
  uint64_t steps = 0;
  const auto mask = find(state, UINT32_MAX, UINT64_MAX, steps);
  std::fill(words.begin(), words.end(), 0u);
  std::copy(mask->bits.begin(), mask->bits.end(), words.begin());
  return state.is_complete();
}

std::shared_ptr<const NodeMask> TokenMasks::node_mask(const Program& program, const Place& place,
                                                      uint64_t max_steps, uint64_t& steps) {
  const Hash128 key = key_of(program, place, vocabulary_->trie().max_len_bytes());
  {
    const std::lock_guard lock(mutex_);
    if (auto kept = nodes_.find(key)) return kept;
  }
  const uint64_t step_limit = std::min(max_steps, limits_.node_steps);
  auto mask = std::make_shared<const NodeMask>(
      find_node_mask(program, place.node, place.rounds, *vocabulary_, step_limit));
  steps += mask->steps;
  if (mask->given_up && step_limit < limits_.node_steps) return nullptr;
  const std::lock_guard lock(mutex_);
  nodes_.insert(key, mask);
  return mask;
}

TokenMasks::Outcome TokenMasks::compute(const GrammarState& state, uint32_t prepared,
                                        std::span<uint32_t> mask, Budget& budget) {
  const Program& program = state.program();
  for (const Place& place : state.configuration().places) {
    const Node& node = program.nodes[place.node];
    const CompiledRule& rule = program.rules[node.rule];
    const uint64_t may_spend = budget.max_spent - std::min(budget.spent, budget.max_spent);
    const auto node_mask_here = node_mask(program, place, may_spend, budget.spent);
    if (node_mask_here == nullptr) return Outcome::kLate;
    if (node_mask_here->given_up) return Outcome::kTooCostly;
    // If a rule counts and calls others, its masks depend on the count (key_of).
    const bool is_prepared = place.node < prepared && (!rule.counted || rule.leaf);
    if (!is_prepared) budget.charged += node_mask_here->steps;
    budget.take(1 + mask.size() / kWordsOfStep);
    const uint32_t rounds = node.loop == LoopPart::kOutside ? rule.initial_rounds : place.rounds;
    const uint32_t left = rule.max_rounds == UINT32_MAX ? UINT32_MAX : rule.max_rounds - rounds;
    const uint32_t owed = rule.min_rounds > rounds ? rule.min_rounds - rounds : 0;
    node_mask_here->add_to(mask, left, owed);
    if (budget.charged > budget.max_charged) return Outcome::kTooCostly;
    if (budget.spent > budget.max_spent) return Outcome::kLate;
    if (node_mask_here->rests.empty()) continue;
    Walker& walker = thread_walker();
    const uint64_t first_step = walker.steps();
    walker.begin_after(program, place.frame);
    walker.limit(budget.left());
    const std::vector<ByteTrie::Node>& rests = node_mask_here->rests.nodes();
    for (uint32_t at = 0; at < rests.size() && !walker.halted();) {
      while (walker.levels() > rests[at].depth) walker.pop();
      if (!walker.push(rests[at].byte)) {
        at = rests[at].end;
        continue;
      }
      node_mask_here->add_rest(node_mask_here->rests.ids(rests[at]), mask, left, owed);
      ++at;
    }
    const bool spends_first = budget.max_spent - std::min(budget.spent, budget.max_spent) <
                              budget.max_charged - budget.charged;
    budget.take(walker.steps() - first_step);
    if (!walker.halted()) continue;
    // A walk that one level's bound halts also counts as too costly.
    return spends_first && budget.spent > budget.max_spent ? Outcome::kLate : Outcome::kTooCostly;
  }
  return Outcome::kDone;
}

Result<uint32_t> TokenMasks::prepare(const Grammar& grammar) {
  FORERUN_ASSIGN_OR_RETURN(const std::optional<uint32_t> nodes,
                           prepare_within(grammar, UINT64_MAX));
  return *nodes;
}

Result<std::optional<uint32_t>> TokenMasks::prepare_within(const Grammar& grammar,
                                                           uint64_t max_steps) {
  const GrammarState start = grammar.start();
  const Program& program = start.program();
  uint64_t steps = 0, own_steps = 0;
  size_t bytes = 0;
  uint32_t at = 0;
  for (; at < program.nodes.size(); ++at) {
    const Node& node = program.nodes[at];
    if (node.edge_count == 0) continue;
    if (bytes > limits_.node_bytes / 2 || steps > limits_.prepare_steps) break;
    const CompiledRule& rule = program.rules[node.rule];
    const bool looping = rule.counted && node.loop != LoopPart::kOutside;
    const auto mask = node_mask(program, {at, looping ? rule.initial_rounds : 0, nullptr},
                                max_steps - own_steps, own_steps);
    if (mask == nullptr || own_steps > max_steps) return std::optional<uint32_t>();
    steps += mask->steps;
    if (mask->given_up) {
      return Status(StatusCode::kResourceExhausted,
                    "grammar: rule \"" + rule.name +
                        "\" can read one text in so many ways that token masks take too long; "
                        "accepted: alternatives that differ in their first characters");
    }
    bytes += mask->size_bytes();
  }
  return std::optional(at);
}

void TokenMasks::clear() {
  const std::lock_guard lock(mutex_);
  nodes_.clear();
  states_.clear();
}

}  // namespace forerun::grammar
