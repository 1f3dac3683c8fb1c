#include "grammar/token_masks.h"

#include <algorithm>
#include <utility>

#include "grammar/configuration.h"
#include "grammar/walker.h"

namespace forerun::grammar {
namespace {

// Names a node's mask. Rounds matter only where the mask is not by rounds
// itself, and as far as one token can get: to the loop's bounds.
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

bool TokenMasks::write(const GrammarState& state, std::span<uint32_t> mask) {
  const size_t words = vocabulary_->mask_words();
  const std::span<uint32_t> written = mask.first(words);
  std::fill(mask.begin() + static_cast<std::ptrdiff_t>(words), mask.end(), 0u);
  const Hash128 key = state.hash();
  {
    const std::lock_guard lock(mutex_);
    if (const auto kept = states_.find(key)) {
      std::copy(kept->bits.begin(), kept->bits.end(), written.begin());
      return state.is_complete();
    }
  }
  compute(state, written);
  auto kept = std::make_shared<StateMask>();
  kept->bits.assign(written.begin(), written.end());
  const std::lock_guard lock(mutex_);
  states_.insert(key, std::move(kept));
  return state.is_complete();
}

std::shared_ptr<const NodeMask> TokenMasks::node_mask(const Program& program, const Place& place) {
  const Hash128 key = key_of(program, place, vocabulary_->trie().max_len_bytes());
  {
    const std::lock_guard lock(mutex_);
    if (auto kept = nodes_.find(key)) return kept;
  }
  auto mask = std::make_shared<const NodeMask>(
      find_node_mask(program, place.node, place.rounds, *vocabulary_, limits_.node_steps));
  const std::lock_guard lock(mutex_);
  nodes_.insert(key, mask);
  return mask;
}

void TokenMasks::compute(const GrammarState& state, std::span<uint32_t> mask) {
  std::fill(mask.begin(), mask.end(), 0u);
  const Program& program = state.program();
  uint64_t steps = 0;  // of this state's rests, nodes' analyses aside
  for (const Place& place : state.configuration().places) {
    const auto node_mask_here = node_mask(program, place);
    const Node& node = program.nodes[place.node];
    const CompiledRule& rule = program.rules[node.rule];
    const uint32_t rounds = node.loop == LoopPart::kOutside ? rule.initial_rounds : place.rounds;
    const uint32_t left = rule.max_rounds == UINT32_MAX ? UINT32_MAX : rule.max_rounds - rounds;
    const uint32_t owed = rule.min_rounds > rounds ? rule.min_rounds - rounds : 0;
    node_mask_here->add_to(mask, left, owed);
    if (node_mask_here->rests.empty()) continue;
    Walker& walker = thread_walker();
    const uint64_t first_step = walker.steps(),
                   last_step = first_step + limits_.state_steps - steps;
    walker.begin_after(program, place.frame);
    const std::vector<ByteTrie::Node>& rests = node_mask_here->rests.nodes();
    for (uint32_t at = 0; at < rests.size() && walker.steps() < last_step;) {
      while (walker.levels() > rests[at].depth) walker.pop();
      if (!walker.push(rests[at].byte)) {
        at = rests[at].end;
        continue;
      }
      node_mask_here->add_rest(node_mask_here->rests.ids(rests[at]), mask, left, owed);
      ++at;
    }
    steps = std::min(limits_.state_steps, steps + walker.steps() - first_step);
  }
}

Status TokenMasks::prepare(const Grammar& grammar) {
  const GrammarState start = grammar.start();
  const Program& program = start.program();
  uint64_t steps = 0;
  size_t bytes = 0;
  for (uint32_t at = 0; at < program.nodes.size(); ++at) {
    const Node& node = program.nodes[at];
    if (node.edge_count == 0) continue;
    const CompiledRule& rule = program.rules[node.rule];
    const bool looping = rule.counted && node.loop != LoopPart::kOutside;
    const auto mask = node_mask(program, {at, looping ? rule.initial_rounds : 0, nullptr});
    steps += mask->steps;
    if (mask->given_up) {
      return Status(StatusCode::kResourceExhausted,
                    "grammar: rule \"" + rule.name +
                        "\" reads the same text in so many ways that "
                        "masks of tokens take too long; accepted: alternatives that differ sooner");
    }
    bytes += mask->size_bytes();
    if (bytes > limits_.node_bytes / 2 || steps > limits_.prepare_steps) break;
  }
  return {};
}

void TokenMasks::clear() {
  const std::lock_guard lock(mutex_);
  nodes_.clear();
  states_.clear();
}

}  // namespace forerun::grammar
