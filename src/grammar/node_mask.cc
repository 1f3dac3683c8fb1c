#include "grammar/node_mask.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "grammar/configuration.h"
#include "grammar/walker.h"

namespace forerun::grammar {
namespace {

// Ids take less space than bits if fewer than one token in this many is set.
constexpr size_t kDenseShare = 64;
constexpr size_t kCheckpointTokens = 8192;
constexpr uint64_t kStepsOfRest = 4;  // cost of a rest: a string that is copied and sorted

void set_bit(std::span<uint32_t> mask, int32_t id) {
  mask[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
}

class NodeAnalysis {
 public:
  NodeAnalysis(const Program& program, uint32_t node, uint32_t rounds,
               const VocabularyTrie& vocabulary)
      : program_(program),
        rule_(program.rules[program.nodes[node].rule]),
        nodes_(vocabulary.trie().nodes()),
        vocabulary_(vocabulary),
        walker_(thread_walker()) {
    mask_.by_rounds = rule_.counted && rule_.leaf;
    if (mask_.by_rounds) {
      const bool outside = program.nodes[node].loop == LoopPart::kOutside;
      walker_.begin_unbounded(program, {node, outside ? 0 : rule_.initial_rounds, unknown_frame()});
    } else {
      const Place place{node, rounds, unknown_frame()};
      walker_.begin(program, {&place, 1}, false);
    }
    progress_.push_back(progress_at({}));
  }

  NodeMask run(uint64_t max_steps) {
    first_step_ = walker_.steps();
    max_steps_ = max_steps;
    walker_.limit(max_steps);
    for (uint32_t at = 0; at < nodes_.size();) {
      mask_.steps = steps();
      if (mask_.steps >= max_steps_) mask_.given_up = true;
      if (mask_.given_up) break;
      const ByteTrie::Node& node = nodes_[at];
      while (walker_.levels() > node.depth) {
        walker_.pop();
        progress_.pop_back();
      }
      while (!exits_.empty() && exits_.back().length + 1 >= node.depth) exits_.pop_back();
      // The rule may end before this byte.
      if (node.depth > 1 && walker_.escaped() && may_follow(node.byte)) {
        exits_.push_back({static_cast<uint16_t>(node.depth - 1), progress_.back()});
      }
      if (!walker_.push(node.byte)) {
        mask_.given_up = walker_.halted();
        if (!exits_.empty() && !mask_.given_up) add_rests(at);
        at = node.end;
        continue;
      }
      progress_.push_back(progress_at(progress_.back()));
      if (exits_.empty() && stays_below(node)) {
        const auto ids = vocabulary_.trie().ids_from(node);
        mask_.ids.insert(mask_.ids.end(), ids.begin(), ids.end());
        at = node.end;
        continue;
      }
      // If a rule ends with the token's last byte, its caller can always continue or end.
      for (const int32_t id : vocabulary_.trie().ids(node)) accept(id);
      ++at;
    }
    mask_.steps = steps();
    if (mask_.steps >= max_steps_) mask_.given_up = true;
    if (!mask_.given_up) finish();
    return std::move(mask_);
  }

 private:
  uint64_t steps() const { return walker_.steps() - first_step_ + kStepsOfRest * rests_.size(); }

  // The state of the loop's rounds after the bytes of a level.
  struct Progress {
    uint16_t rounds = 0;   // rounds that must be left
    bool in_loop = false;  // false: `rounds` is its value when the loop was left
    bool known = false;    // whether the loop was entered, so that `rounds` is valid
  };
  struct Exit {
    uint16_t length = 0;  // number of the token's bytes that the rule has read
    Progress progress;
  };

  bool may_follow(uint8_t byte) const { return (rule_.follow[byte / 64] >> (byte % 64)) & 1; }

  Progress progress_at(const Progress& before) const {
    if (!mask_.by_rounds) return {};
    for (const Place& place : walker_.places()) {
      const LoopPart part = program_.nodes[place.node].loop;
      if (part == LoopPart::kOutside) continue;
      const uint32_t rounds = place.rounds - rule_.initial_rounds + (part == LoopPart::kBody);
      return {static_cast<uint16_t>(std::min(rounds, 0xffffu)), true, true};
    }
    return {before.rounds, false, before.known};
  }

  // Returns whether the walk is at a single place and stays there for all bytes below `node`.
  bool stays_below(const ByteTrie::Node& node) {
    const auto places = walker_.places();
    if (places.size() != 1 || walker_.escaped()) return false;
    const uint32_t at = places[0].node;
    if (!program_.nodes[at].plain || node.classes_below == 0) return false;
    const auto [found, inserted] = stay_classes_.try_emplace(at, 0);
    if (inserted) {
      uint32_t leaving = 0;
      for (uint32_t byte = 0; byte < 256; ++byte) {
        const auto b = static_cast<uint8_t>(byte);
        if (program_.target(program_.nodes[at], b) != at) leaving |= 1u << byte_class(b);
      }
      found->second = ~leaving;
    }
    return (node.classes_below & ~found->second) == 0;
  }

  void accept(int32_t id) {
    const Progress& now = progress_.back();
    if (!mask_.by_rounds) {
      mask_.ids.push_back(id);
    } else if (now.in_loop || !now.known) {
      mask_.staying.push_back({id, now.in_loop ? now.rounds : uint16_t{0}, false});
    } else {
      mask_.leaving.push_back({id, now.rounds, true});
    }
  }

  // Adds every token from node `at` down, cut at each exit.
  void add_rests(uint32_t at) {
    for (uint32_t i = at; i < nodes_[at].end && steps() < max_steps_; ++i) {
      for (const int32_t id : vocabulary_.trie().ids(nodes_[i])) {
        for (const Exit& exit : exits_) {
          std::string rest(vocabulary_.token(id).substr(exit.length));
          if (!mask_.by_rounds) {
            rests_.emplace_back(std::move(rest), id);
            continue;
          }
          rests_.emplace_back(std::move(rest), static_cast<int32_t>(mask_.rest_rounds.size()));
          mask_.rest_rounds.push_back({id, exit.progress.rounds, exit.progress.known});
        }
      }
    }
  }

  void finish() {
    mask_.rests = ByteTrie(std::move(rests_));
    if (mask_.by_rounds) {
      make_checkpoints();
      return;
    }
    mask_.dense = mask_.ids.size() > static_cast<size_t>(vocabulary_.vocab_size()) / kDenseShare;
    if (!mask_.dense) return;
    mask_.bits.resize(vocabulary_.mask_words());
    for (const int32_t id : mask_.ids) set_bit(mask_.bits, id);
    mask_.ids = {};
  }

  void make_checkpoints() {
    std::vector<NodeMask::Rounds>& all = mask_.staying;
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.rounds < b.rounds; });
    std::vector<uint32_t> bits(vocabulary_.mask_words());
    size_t last = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      set_bit(bits, all[i].id);
      const bool ends = i + 1 == all.size() || all[i + 1].rounds != all[i].rounds;
      if (!ends || i + 1 - last < (i + 1 == all.size() ? 1 : kCheckpointTokens)) continue;
      mask_.checkpoints.push_back({all[i].rounds, i + 1, bits});
      last = i + 1;
    }
  }

  const Program& program_;
  const CompiledRule& rule_;
  const std::vector<ByteTrie::Node>& nodes_;
  const VocabularyTrie& vocabulary_;
  Walker& walker_;
  uint64_t first_step_ = 0, max_steps_ = 0;
  std::unordered_map<uint32_t, uint32_t> stay_classes_;  // by node: classes that lead back to it
  std::vector<Progress> progress_;                       // one per level of the walk
  std::vector<Exit> exits_;                              // ascending
  std::vector<ByteTrie::Entry> rests_;
  NodeMask mask_;
};

}  // namespace

void NodeMask::add_to(std::span<uint32_t> mask, uint32_t left, uint32_t owed) const {
  for (size_t i = 0; i < bits.size(); ++i) mask[i] |= bits[i];
  for (const int32_t id : ids) set_bit(mask, id);
  if (!by_rounds) return;
  size_t first = 0;
  const auto after = std::find_if(checkpoints.begin(), checkpoints.end(),
                                  [&](const Checkpoint& at) { return at.rounds > left; });
  if (after != checkpoints.begin()) {
    const Checkpoint& checkpoint = *(after - 1);
    for (size_t i = 0; i < checkpoint.bits.size(); ++i) mask[i] |= checkpoint.bits[i];
    first = checkpoint.tokens;
  }
  for (size_t i = first; i < staying.size() && staying[i].rounds <= left; ++i) {
    set_bit(mask, staying[i].id);
  }
  for (const Rounds& token : leaving) {
    if (token.rounds <= left && token.rounds >= owed) set_bit(mask, token.id);
  }
}

void NodeMask::add_rest(std::span<const int32_t> rest_ids, std::span<uint32_t> mask, uint32_t left,
                        uint32_t owed) const {
  for (const int32_t id : rest_ids) {
    if (!by_rounds) {
      set_bit(mask, id);
      continue;
    }
    const Rounds& rest = rest_rounds[static_cast<size_t>(id)];
    if (!rest.leaves || (rest.rounds <= left && rest.rounds >= owed)) set_bit(mask, rest.id);
  }
}

size_t NodeMask::size_bytes() const {
  size_t bytes = sizeof(NodeMask) + bits.size() * 4 + ids.size() * 4 + rests.size_bytes() +
                 (staying.size() + leaving.size() + rest_rounds.size()) * sizeof(Rounds);
  for (const Checkpoint& checkpoint : checkpoints) bytes += checkpoint.bits.size() * 4;
  return bytes;
}

NodeMask find_node_mask(const Program& program, uint32_t node, uint32_t rounds,
                        const VocabularyTrie& vocabulary, uint64_t max_steps) {
  return NodeAnalysis(program, node, rounds, vocabulary).run(max_steps);
}

}  // namespace forerun::grammar
