// Combines several sources into one: a token's probability is the highest that any of them gives
// it. Probabilities are not added up, since all sources read the same text.
#pragma once

#include <memory>
#include <vector>

#include "drafts/draft_source.h"

namespace forerun {

class UnionSource : public DraftSource {
 public:
  explicit UnionSource(std::vector<std::unique_ptr<DraftSource>> sources)
      : sources_(std::move(sources)) {}

  void observe(std::span<const TokenId> tokens) override;
  void propose(std::span<const TokenId> path, int32_t count,
               std::vector<Candidate>& out) const override;

 private:
  std::vector<std::unique_ptr<DraftSource>> sources_;
  mutable std::vector<Candidate> source_guesses_;
};

}  // namespace forerun
