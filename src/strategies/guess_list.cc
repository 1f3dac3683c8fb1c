#include "strategies/guess_list.h"

#include <algorithm>
#include <utility>

namespace forerun {

GuessList::GuessList(std::unique_ptr<DraftSource> source, AcceptRule accept, int32_t target_vocab)
    : source_(std::move(source)), accept_(accept), target_vocab_(target_vocab) {}

void GuessList::observe(std::span<const TokenId> verified) {
  if (!source_) return;
  for (const size_t end : {prompt_tokens_, verified.size()}) {
    if (observed_ >= end) continue;
    source_->observe(verified.subspan(observed_, end - observed_));
    right_ = 0;  // these tokens have not been compared
    observed_ = end;
  }
}

int32_t GuessList::follow(std::span<const TokenId> verified) {
  if (!source_) return 0;
  if (observed_ < prompt_tokens_) observe(verified.first(prompt_tokens_));
  for (; observed_ < verified.size(); ++observed_) {
    source_->propose({}, 1, proposals_);
    const bool is_right = !proposals_.empty() && proposals_[0].token == verified[observed_];
    right_ = is_right ? right_ + 1 : 0;
    source_->observe(verified.subspan(observed_, 1));
  }
  return right_;
}

void GuessList::merge_proposals(const TokenTree& tree, NodeId node, int32_t count) {
  proposals_.clear();
  if (!source_ || count <= 0) return;
  tree.path_tokens(node, path_tokens_);
  source_->propose(path_tokens_, count, proposals_);
  for (const Candidate& proposal : proposals_) {
    const auto same = std::find_if(guesses_.begin(), guesses_.end(), [&](const Guess& guess) {
      return guess.token == proposal.token;
    });
    if (same == guesses_.end()) {
      guesses_.push_back({proposal.token, proposal.logprob, Guess::Origin::kSource, 0});
    } else {
      same->origin = Guess::Origin::kBoth;
      same->logprob = std::max(same->logprob, proposal.logprob);
    }
  }
}

void GuessList::add_children(TokenTree& tree, NodeId node, std::span<const Candidate> candidates,
                             int32_t count, GuessJudge& judge) {
  guesses_.clear();
  for (const Candidate& candidate : candidates) {
    guesses_.push_back({candidate.token, candidate.logprob, Guess::Origin::kModel, 0});
  }
  merge_proposals(tree, node, count);
  if (target_vocab_ > 0) {
    std::erase_if(guesses_, [&](const Guess& guess) { return guess.token >= target_vocab_; });
  }
  // Samples keep their order, in which rule `rejection` tries them.
  if (accept_ == AcceptRule::kMatch && !proposals_.empty()) {
    std::stable_sort(guesses_.begin(), guesses_.end(),
                     [](const Guess& a, const Guess& b) { return a.logprob > b.logprob; });
  }
  judge.weigh(tree, node, guesses_);
  candidates_.clear();
  for (const Guess& guess : guesses_) candidates_.push_back({guess.token, guess.logprob});
  const NodeId first = tree.add_children(node, candidates_);
  for (size_t i = 0; first != kNoNode && i < guesses_.size(); ++i) {
    const NodeId child = first + static_cast<NodeId>(i);
    tree.set_note(child, guesses_[i].note);
    tree.set_origin(child, guesses_[i].origin);
  }
}

}  // namespace forerun
