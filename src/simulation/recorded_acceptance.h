// Recorded acceptance: the text that a target wrote and, at each of its positions, the draft's
// guesses. record_acceptance() records it on a real executor, a JSON file stores it, and the
// simulated executor replays it.
//
// Along a recorded text every answer is the recorded one. So are the draft's answers after those
// wrong guesses that were recorded (branches). For any other history, the hash of the history picks
// a recorded position and the answer is that position's guesses, so that trees grow about as wide
// and as deep as with the real models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/executor.h"
#include "forerun/status.h"
#include "simulation/acceptance_source.h"

namespace forerun {

// The draft's guesses after a wrong guess.
struct RecordedBranch {
  // The history that this branch continues: the index of an earlier branch of the text or, if
  // negative, the history before output token -1 - parent.
  int32_t parent = -1;
  TokenId token = 0;
  std::vector<Candidate> guesses;
};

struct RecordedText {
  std::vector<TokenId> tokens;  // prompt and output
  int32_t prompt_tokens = 0;    // at least 1, fewer than tokens
  // For each output token, the draft's guesses at it, best first: logprobs are at most 0 and never
  // increase.
  std::vector<std::vector<Candidate>> guesses;
  std::vector<RecordedBranch> branches;
};

class RecordedAcceptance : public AcceptanceSource {
 public:
  explicit RecordedAcceptance(int32_t vocab) : vocab_(vocab) {}

  // Fails with kInvalidArgument if the sizes disagree, a token is outside the vocabulary, or a
  // branch continues a history that does not exist.
  Status add(RecordedText text);
  std::span<const RecordedText> texts() const { return texts_; }

  int32_t vocab() const override { return vocab_; }
  TokenId target_token(uint64_t history, int32_t position) const override;
  void draft_guesses(uint64_t history, int32_t position, int32_t count,
                     std::vector<Candidate>* out) const override;

  // Rounds logprobs to thousandths; a logprob that exceeds its predecessor becomes equal to it.
  Status save(const std::filesystem::path& file) const;
  static Result<RecordedAcceptance> load(const std::filesystem::path& file);

 private:
  struct Place {
    int32_t text = 0;
    int32_t output = -1;  // index of the output token that follows the history
    int32_t branch = -1;  // or index of the branch that ends the history
  };
  Status check(const RecordedText& text) const;
  const std::vector<Candidate>& guesses_at(const Place& place) const;

  int32_t vocab_;
  std::vector<RecordedText> texts_;
  std::unordered_map<uint64_t, Place> places_;  // by history
  std::vector<Place> on_text_;
};

// Asks the draft of `executor` for its best `count` guesses at every output token of `tokens`, and
// waits for the result. `spec` is the request's specification. `sequence` must not be open. If the
// draft fails, returns its failure.
Result<RecordedText> record_acceptance(Executor& executor, SequenceId sequence,
                                       const SequenceSpec& spec, std::span<const TokenId> tokens,
                                       int32_t prompt_tokens, int32_t count = 16);

}  // namespace forerun
