#include "grammar/node_mask.h"

#include <string>
#include <utility>

#include "grammar/configuration.h"
#include "grammar/walker.h"

namespace forerun::grammar {
namespace {

constexpr size_t kDenseShare = 64;  // ids take less than bits below a share of one in this many

class NodeAnalysis {
 public:
  NodeAnalysis(const Program& program, uint32_t node, uint32_t rounds,
               const VocabularyTrie& vocabulary)
      : nodes_(vocabulary.trie().nodes()),
        vocabulary_(vocabulary),
        follow_(program.rules[program.nodes[node].rule].follow),
        walker_(thread_walker()) {
    const Place place{node, rounds, unknown_frame()};
    walker_.begin(program, {&place, 1}, false);
  }

  NodeMask run() {
    for (uint32_t at = 0; at < nodes_.size();) {
      const ByteTrie::Node& node = nodes_[at];
      while (walker_.levels() > node.depth) walker_.pop();
      while (!exits_.empty() && exits_.back() + 1 >= node.depth) exits_.pop_back();
      // The rule may be over before this byte.
      if (node.depth > 1 && walker_.escaped() && may_follow(node.byte)) {
        exits_.push_back(static_cast<uint16_t>(node.depth - 1));
      }
      if (!walker_.push(node.byte)) {
        if (!exits_.empty()) add_rests(at);
        at = node.end;
        continue;
      }
      // A rule that is over with the token's last byte can always go on or end where it returns.
      const auto ids = vocabulary_.trie().ids(node);
      accepted_.insert(accepted_.end(), ids.begin(), ids.end());
      ++at;
    }
    return take();
  }

 private:
  bool may_follow(uint8_t byte) const { return (follow_[byte / 64] >> (byte % 64)) & 1; }

  // Every token from node `at` down, cut at each exit.
  void add_rests(uint32_t at) {
    for (uint32_t i = at; i < nodes_[at].end; ++i) {
      for (const int32_t id : vocabulary_.trie().ids(nodes_[i])) {
        for (const uint16_t exit : exits_) {
          rests_.emplace_back(std::string(vocabulary_.token(id).substr(exit)), id);
        }
      }
    }
  }

  NodeMask take() {
    NodeMask mask;
    mask.dense = accepted_.size() > static_cast<size_t>(vocabulary_.vocab_size()) / kDenseShare;
    if (mask.dense) {
      mask.bits.resize(vocabulary_.mask_words());
      for (const int32_t id : accepted_) mask.bits[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
    } else {
      mask.ids = std::move(accepted_);
    }
    mask.rests = ByteTrie(std::move(rests_));
    return mask;
  }

  const std::vector<ByteTrie::Node>& nodes_;
  const VocabularyTrie& vocabulary_;
  const std::array<uint64_t, 4>& follow_;
  Walker& walker_;
  std::vector<uint16_t> exits_;  // lengths after which the rule may be over, ascending
  std::vector<int32_t> accepted_;
  std::vector<ByteTrie::Entry> rests_;
};

}  // namespace

NodeMask find_node_mask(const Program& program, uint32_t node, uint32_t rounds,
                        const VocabularyTrie& vocabulary) {
  return NodeAnalysis(program, node, rounds, vocabulary).run();
}

}  // namespace forerun::grammar
