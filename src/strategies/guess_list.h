// Merges the draft model's candidates for the token after a node with a model-free source's
// proposals, and adds them to the tree as children. Pure; one object per request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "drafts/draft_source.h"
#include "step/work.h"
#include "strategies/tree_growth.h"
#include "tree/token_tree.h"

namespace forerun {

class GuessList {
 public:
  // `source` may be null. `target_vocab`: guesses with token ids that are not below it are dropped;
  // 0: no limit.
  GuessList(std::unique_ptr<DraftSource> source, AcceptRule accept, int32_t target_vocab);

  bool has_source() const { return source_ != nullptr; }
  // Starts a request with a prompt of the first `prompt_tokens` tokens.
  void start(int32_t prompt_tokens) { prompt_tokens_ = static_cast<size_t>(prompt_tokens); }
  // Passes the verified tokens that the source does not know yet to it, the prompt in a separate
  // call; `verified` is the whole text. Reading a prompt takes some time.
  void observe(std::span<const TokenId> verified);
  // Like observe(), and compares each new token with the source's best guess for it. Returns how
  // many tokens in a row, up to the last one, were guessed right; 0 without a source.
  int32_t follow(std::span<const TokenId> verified);

  // Adds children to `node`: `candidates` (the model's, best first; may be empty) and up to `count`
  // proposals of the source, with the weights of `judge`. The source must have observed all tokens
  // up to the tree's root.
  void add_children(TokenTree& tree, NodeId node, std::span<const Candidate> candidates,
                    int32_t count, GuessJudge& judge);

 private:
  void merge_proposals(const TokenTree& tree, NodeId node, int32_t count);

  std::unique_ptr<DraftSource> source_;
  const AcceptRule accept_;
  const int32_t target_vocab_;
  size_t prompt_tokens_ = 0;
  size_t observed_ = 0;  // number of tokens that the source has read
  int32_t right_ = 0;    // what follow() returned last
  // Reused memory.
  std::vector<Guess> guesses_;
  std::vector<Candidate> candidates_, proposals_;
  std::vector<TokenId> path_tokens_;
};

}  // namespace forerun
