#include "strategies/guess_chain.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace forerun {
namespace {

// A guess below this chance is never worth a row, since no row is free.
constexpr float kMinChainChance = 0.1f;
// The assumed time of a Step of the draft model, in plain Steps, before any measurement.
constexpr float kUnmeasuredDraftSteps = 0.2f;

}  // namespace

GuessChain::GuessChain(const Config& config, std::unique_ptr<DraftSource> source,
                       std::shared_ptr<SharedAcceptance> shared)
    : config_(config),
      guess_list_(std::move(source), AcceptRule::kMatch, config.target_vocab),
      draft_kv_(config.draft_vocab),
      acceptance_(std::move(shared)) {}

void GuessChain::start(const RequestView& request) {
  if (config_.max_guesses == 0) return;
  tokens_.reserve(static_cast<size_t>(request.max_tokens));
  tokens_.assign(request.tokens.begin(), request.tokens.end());
  guess_list_.start(request.prompt_tokens);
  draft_kv_.start(request.kv_tokens[static_cast<size_t>(Role::kDraft)]);
}

void GuessChain::add_verified(std::span<const EmittedToken> tokens) {
  if (config_.max_guesses == 0) return;
  for (const EmittedToken& token : tokens) tokens_.push_back(token.token);
}

void GuessChain::on_costs(const CostTable& costs) { costs_ = costs; }

void GuessChain::prepare() {
  if (config_.max_guesses == 0) return;
  guess_list_.observe(tokens_);
  has_read_ = true;
}

void GuessChain::begin(const TokenTree& tree, NodeId last, bool reads) {
  tip_ = last;
  guesses_.clear();
  chances_.clear();
  num_rows_ = 0;
  ended_ = config_.max_guesses == 0;
  reads_ = reads;
  for (int32_t row = tree.row(last) + 1; row < tree.size(); ++row) {
    ended_ = !take_guess(tree, tree.node_at(row)) || ended_;
  }
}

float GuessChain::min_chance(size_t rows) const {
  if (!costs_.measured()) return kMinChainChance;
  const float plain = costs_.at(Role::kTarget, 1);
  // Beside other requests, all guesses that might pay are offered (WorkRow::chance).
  const auto before = static_cast<int32_t>(rows) + 1;
  const float row = costs_.min_row > 0.0f
                        ? costs_.min_row
                        : costs_.at(Role::kTarget, before + 1) - costs_.at(Role::kTarget, before);
  return std::max(kMinChainChance, row / plain);
}

bool GuessChain::grow(TokenTree& tree, WorkItem& item) {
  if (!ended_ && reads_) prepare();
  while (!ended_) {
    // A guess is useless if max_tokens leaves no room for the token after it.
    if (static_cast<int32_t>(num_rows_) >= config_.max_guesses ||
        tree.position(tip_) + 1 >= tree.max_position()) {
      break;
    }
    if (config_.has_draft_model) {
      // The draft model has already run here and had no guess.
      if (tree.expansion(Role::kDraft, tip_) != Expansion::kUnexpanded) break;
      // The cost of a Step of the draft model, relative to a target Step that it may save.
      const float cost = costs_.measured()
                             ? costs_.at(Role::kDraft, 1) / costs_.at(Role::kTarget, 1)
                             : kUnmeasuredDraftSteps;
      if (!chances_.empty() && chances_.back() < cost) break;
      fill_item(tree, item);
      return true;
    }
    if (!has_read_ || !add_guess(tree, {})) break;
  }
  ended_ = true;
  return false;
}

void GuessChain::fill_item(TokenTree& tree, WorkItem& item) {
  item.role = Role::kDraft;
  item.view = config_.view;
  draft_kv_.take_edits(item);
  // The tree is a chain, so its rows are its nodes in order.
  for (int32_t row = 0; row < tree.size(); ++row) {
    const NodeId node = tree.node_at(row);
    if (tree.expansion(Role::kDraft, node) != Expansion::kUnexpanded) continue;
    if (row == 0) draft_kv_.add_missing_rows(tokens_, tree.position(node), item);
    item.rows.push_back({.token = draft_kv_.token(tree.token(node)),
                         .position = tree.position(node),
                         .node = node,
                         .parent = tree.parent(node)});
    tree.set_expansion(Role::kDraft, node, Expansion::kInFlight);
  }
  item.rows.back().want = Want::kTopK;
  item.rows.back().count = 1;
}

void GuessChain::on_guessed(TokenTree& tree, const WorkResult& result) {
  tree.nodes_with_kv(Role::kDraft, scratch_);
  for (const NodeId node : scratch_) tree.set_expansion(Role::kDraft, node, Expansion::kExpanded);
  if (result.rows.empty() || !add_guess(tree, result.rows.back().top)) ended_ = true;
}

bool GuessChain::add_guess(TokenTree& tree, std::span<const Candidate> candidates) {
  const int32_t before = tree.size();
  guess_list_.add_children(tree, tip_, candidates, has_read_ ? 1 : 0, *this);
  return tree.size() > before && take_guess(tree, tree.node_at(before));
}

bool GuessChain::take_guess(const TokenTree& tree, NodeId guess) {
  tip_ = guess;
  const float parent = chances_.empty() ? 1.0f : chances_.back();
  guesses_.push_back(tip_);
  chances_.push_back(parent * std::exp(tree.logprob(tip_)));
  // A guess that is not worth a row is still compared with the check's token, so that its chance
  // can rise.
  if (num_rows_ + 1 < guesses_.size() || chances_.back() < min_chance(num_rows_)) return false;
  ++num_rows_;
  return true;
}

void GuessChain::weigh(const TokenTree&, NodeId, std::vector<Guess>& guesses) {
  acceptance_.weigh(guesses);
  if (guesses.size() > 1) guesses.resize(1);
}

void GuessChain::settle(TokenTree& tree, NodeId end, TokenId token) {
  for (const NodeId guess : guesses_) {
    const bool is_next = tree.parent(guess) == end;
    const bool right = !is_next || tree.token(guess) == token;
    acceptance_.observe(tree.note(guess), right);
    if (!is_next) continue;
    if (right) return;
    break;
  }
  draft_kv_.truncate(tree, tree.row(end) + 1);
}

void GuessChain::move_root(TokenTree& tree, std::span<const NodeId> path, TokenId token,
                           int32_t position) {
  draft_kv_.move_root(tree, path, kNoNode, token, position, scratch_);
}

}  // namespace forerun
