#include "engine/loop/grammar_constraint.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace forerun {
namespace {

using grammar::Advance;
using grammar::GrammarState;
using grammar::StateMask;

constexpr char kSimplify[] =
    "; accepted: grammars that can read a text in only a few ways: let alternatives differ in "
    "their first characters, and write [a-z]* in place of a rule that calls itself twice";

Status too_costly(int64_t tokens, const std::string& what) {
  return Status(StatusCode::kInvalidArgument, "output_format: after " + std::to_string(tokens) +
                                                  " tokens of output " + what + kSimplify);
}

enum class Phase : uint8_t {
  kNew,
  kReady,
  kAstray,  // no output leads to this node
  kFailed,
};

}  // namespace

struct GrammarConstraint::Node {
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  // Frees ancestors in a loop: a resumed text makes a chain of as many nodes as it has tokens, too
  // deep for recursion.
  ~Node() {
    if (parent == nullptr) return;
    thread_local std::shared_ptr<Node>* next = nullptr;
    if (next != nullptr) {
      *next = std::move(parent);
      return;
    }
    std::shared_ptr<Node> above = std::move(parent);
    next = &above;
    while (above != nullptr) std::exchange(above, nullptr).reset();
    next = nullptr;
  }

  std::atomic<Phase> phase{Phase::kNew};  // once it is not kNew, the results below may be read
  // Guarded by the tree's mutex.
  std::shared_ptr<Node> parent;  // set while the phase is kNew; null: the start
  std::vector<std::pair<TokenId, std::weak_ptr<Node>>> children;
  bool queued = false;

  TokenId token = -1;
  std::string text;  // bytes in place of a token, if begin() made the node
  // The results of find().
  std::optional<GrammarState> state;
  std::shared_ptr<const StateMask> mask;
  uint64_t path_steps = 0;  // steps of all advances and masks from the start to this node
  int64_t tokens = 0;
  Status error;
};

struct GrammarConstraint::Tree {
  explicit Tree(std::shared_ptr<const Format> request_format)
      : format(std::move(request_format)), account(format->threads->new_account()) {}

  const std::shared_ptr<const Format> format;
  const std::shared_ptr<MaskThreads::Account> account;
  std::mutex mutex;
  // Resolves the node and its ancestors, so that none is kNew. Returns false if that takes more
  // than `max_steps`; some ancestors may be resolved by then. Adds the steps of this thread to
  // `steps`.
  bool resolve(const std::shared_ptr<Node>& node, uint64_t max_steps, uint64_t& steps);
  // Computes the results of `node` into `found`. `parent` must be resolved; null: the start.
  // Returns false as resolve() does.
  bool find(const Node* parent, const Node& node, uint64_t max_steps, uint64_t& steps, Node& found);
};

bool GrammarConstraint::Tree::resolve(const std::shared_ptr<Node>& node, uint64_t max_steps,
                                      uint64_t& steps) {
  std::vector<std::shared_ptr<Node>> path;  // new nodes from the last one upwards
  std::shared_ptr<Node> known;
  {
    const std::lock_guard lock(mutex);
    for (std::shared_ptr<Node> at = node; at != nullptr; at = at->parent) {
      if (at->phase.load(std::memory_order_relaxed) != Phase::kNew) {
        known = at;
        break;
      }
      path.push_back(at);
    }
  }
  uint64_t spent = 0;
  bool done = true;
  for (auto at = path.rbegin(); at != path.rend() && done; ++at) {
    Node found;
    done = find(known.get(), **at, max_steps - std::min(max_steps, spent), spent, found);
    if (!done) break;
    std::shared_ptr<Node> above;
    const std::lock_guard lock(mutex);
    if ((*at)->phase.load(std::memory_order_relaxed) == Phase::kNew) {
      (*at)->state = std::move(found.state);
      (*at)->mask = std::move(found.mask);
      (*at)->path_steps = found.path_steps;
      (*at)->tokens = found.tokens;
      (*at)->error = std::move(found.error);
      above = std::move((*at)->parent);
      (*at)->phase.store(found.phase.load(std::memory_order_relaxed), std::memory_order_release);
    }
    known = *at;
  }
  steps += spent;
  return done;
}

bool GrammarConstraint::Tree::find(const Node* parent, const Node& node, uint64_t max_steps,
                                   uint64_t& steps, Node& found) {
  const MaskBudget& budget = format->budget;
  uint64_t charged = 0;
  const auto fail = [&](const std::string& what) {
    found.phase.store(Phase::kFailed, std::memory_order_relaxed);
    found.error = too_costly(found.tokens, what);
    return true;
  };
  if (parent == nullptr) {
    found.state = format->grammar.start();
  } else {
    found.tokens = parent->tokens + 1;
    const Phase above = parent->phase.load(std::memory_order_acquire);
    if (above != Phase::kReady) {
      found.phase.store(above, std::memory_order_relaxed);
      found.error = parent->error;
      return true;
    }
    found.state = parent->state;
    const uint64_t step_limit = std::min(max_steps, budget.token);
    const std::string_view bytes = node.token < 0 ? std::string_view(node.text)
                                                  : format->masks->vocabulary().token(node.token);
    switch (found.state->advance(bytes, step_limit, charged)) {
      case Advance::kAccepted:
        break;
      case Advance::kRefused:
        steps += charged;
        found.phase.store(Phase::kAstray, std::memory_order_relaxed);
        return true;
      case Advance::kHalted:
        steps += charged;
        if (charged > step_limit && step_limit < budget.token) return false;
        return fail("the last one can be read in so many ways that it takes more than " +
                    std::to_string(budget.token) + " steps");
    }
    steps += charged;
  }
  found.mask = format->masks->find(*found.state, format->prepared,
                                   max_steps - std::min(max_steps, charged), steps);
  if (found.mask == nullptr) return false;
  if (found.mask->too_costly) {
    return fail("the mask of the next token takes more than " +
                std::to_string(format->masks->limits().state_steps) + " steps");
  }
  charged += found.mask->steps;
  found.path_steps = (parent == nullptr ? 0 : parent->path_steps) + charged;
  const auto tokens = static_cast<uint64_t>(found.tokens);
  if (found.path_steps > budget.request + tokens * budget.per_token) {
    return fail("their masks have taken " + std::to_string(found.path_steps) +
                " steps, more than " + std::to_string(budget.request) + " and " +
                std::to_string(budget.per_token) + " a token");
  }
  found.phase.store(Phase::kReady, std::memory_order_relaxed);
  return true;
}

GrammarConstraint::GrammarConstraint(std::shared_ptr<const Format> format)
    : tree_(std::make_shared<Tree>(std::move(format))), root_(std::make_shared<Node>()) {}

TokenConstraint::State GrammarConstraint::start() const { return root_; }

TokenConstraint::State GrammarConstraint::begin(std::string_view bytes) const {
  GrammarState state = tree_->format->grammar.start();
  uint64_t steps = 0;
  if (state.advance(bytes, tree_->format->budget.token, steps) == Advance::kRefused) return nullptr;
  auto node = std::make_shared<Node>();
  node->text = bytes;
  node->parent = root_;
  return node;
}

TokenConstraint::State GrammarConstraint::after(const State& state, TokenId token) const {
  const grammar::VocabularyTrie& vocabulary = tree_->format->masks->vocabulary();
  if (token < 0 || token >= vocabulary.vocab_size() || vocabulary.token(token).empty()) {
    return nullptr;
  }
  // Only this class makes nodes, and it makes them non-const.
  auto parent = std::const_pointer_cast<Node>(std::static_pointer_cast<const Node>(state));
  const std::lock_guard lock(tree_->mutex);
  for (const auto& [child_token, child] : parent->children) {
    if (child_token != token) continue;
    if (auto found = child.lock()) return found;
  }
  std::erase_if(parent->children, [](const auto& child) { return child.second.expired(); });
  auto child = std::make_shared<Node>();
  child->token = token;
  parent->children.emplace_back(token, child);
  child->parent = std::move(parent);
  return child;
}

MaskState GrammarConstraint::prepare(const State& state, int64_t& steps) const {
  const auto node = std::const_pointer_cast<Node>(std::static_pointer_cast<const Node>(state));
  const auto known = [&]() -> std::optional<MaskState> {
    const Phase phase = node->phase.load(std::memory_order_acquire);
    if (phase == Phase::kNew) return std::nullopt;
    return phase == Phase::kFailed ? MaskState::kFailed : MaskState::kReady;
  };
  if (const auto now = known()) return *now;
  {
    const std::lock_guard lock(tree_->mutex);
    if (node->queued) return MaskState::kLate;
  }
  const int64_t max_inline = std::min(steps, tree_->format->budget.inline_steps);
  if (max_inline > 0) {
    uint64_t spent = 0;
    const bool done = tree_->resolve(node, static_cast<uint64_t>(max_inline), spent);
    steps -= static_cast<int64_t>(spent);
    if (done) return *known();
  }
  {
    const std::lock_guard lock(tree_->mutex);
    if (std::exchange(node->queued, true)) return MaskState::kLate;
  }
  tree_->format->threads->add(tree_->account, [tree = tree_, waited = std::weak_ptr<Node>(node)](
                                                  uint64_t max_steps, uint64_t& taken) {
    const std::shared_ptr<Node> wanted = waited.lock();
    return wanted == nullptr ||  // no request holds the state any more
           tree->resolve(wanted, max_steps, taken);
  });
  return MaskState::kLate;
}

bool GrammarConstraint::is_late(const State& state) const {
  const auto& node = *static_cast<const Node*>(state.get());
  return node.phase.load(std::memory_order_acquire) == Phase::kNew;
}

Status GrammarConstraint::error(const State& state) const {
  const auto& node = *static_cast<const Node*>(state.get());
  return node.phase.load(std::memory_order_acquire) == Phase::kFailed ? node.error : Status();
}

void GrammarConstraint::allow(const State& state, std::span<uint32_t> words) const {
  const auto node = std::const_pointer_cast<Node>(std::static_pointer_cast<const Node>(state));
  uint64_t steps = 0;
  if (is_late(state)) tree_->resolve(node, UINT64_MAX, steps);
  if (node->phase.load(std::memory_order_acquire) != Phase::kReady) {
    std::fill(words.begin(), words.end(), ~0u);
    return;
  }
  // Rows may be shorter or longer than the vocabulary.
  const std::vector<uint32_t>& bits = node->mask->bits;
  const size_t count = std::min(words.size(), bits.size());
  std::copy_n(bits.begin(), count, words.begin());
  std::fill(words.begin() + static_cast<std::ptrdiff_t>(count), words.end(), 0u);
  // An end token may be ordinary text, which the grammar would allow earlier.
  const bool may_end = node->state->is_complete();
  for (const int32_t token : tree_->format->end_tokens) {
    const auto word = static_cast<size_t>(token) / 32;
    if (word >= words.size()) continue;
    const uint32_t bit = 1u << (token % 32);
    words[word] = may_end ? words[word] | bit : words[word] & ~bit;
  }
}

}  // namespace forerun
