#include "exec/recorded_acceptance.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace forerun {

Status RecordedAcceptance::add(RecordedText text) {
  const auto size = static_cast<int32_t>(text.tokens.size());
  if (text.prompt_tokens < 1 || text.prompt_tokens >= size ||
      text.guesses.size() != static_cast<size_t>(size - text.prompt_tokens)) {
    return Status(StatusCode::kInvalidArgument,
                  "recorded text: found " + std::to_string(size) + " tokens, of these " +
                      std::to_string(text.prompt_tokens) + " of the prompt, and guesses at " +
                      std::to_string(text.guesses.size()) +
                      "; accepted: a prompt, an output, and guesses at each token of it");
  }
  const auto unknown = [this](TokenId token) { return token < 0 || token >= vocab_; };
  bool all_known = std::none_of(text.tokens.begin(), text.tokens.end(), unknown);
  for (const auto& guesses : text.guesses) {
    for (const Candidate& guess : guesses) all_known = all_known && !unknown(guess.token);
  }
  if (!all_known) {
    return Status(StatusCode::kInvalidArgument,
                  "recorded text: accepted are tokens 0 to " + std::to_string(vocab_ - 1));
  }
  uint64_t history = 0;
  for (int32_t position = 0; position + 1 < size; ++position) {
    history = mix_hash(history, static_cast<uint64_t>(text.tokens[static_cast<size_t>(position)]));
    if (position + 1 < text.prompt_tokens) continue;
    const Place place{static_cast<int32_t>(texts_.size()), position + 1 - text.prompt_tokens};
    places_.try_emplace(history, place);
    all_places_.push_back(place);
  }
  texts_.push_back(std::move(text));
  return {};
}

TokenId RecordedAcceptance::target_token(uint64_t history, int32_t) const {
  const auto found = places_.find(history);
  if (found == places_.end()) {
    return static_cast<TokenId>(history % static_cast<uint64_t>(vocab_));
  }
  const RecordedText& text = texts_[static_cast<size_t>(found->second.text)];
  return text.tokens[static_cast<size_t>(text.prompt_tokens + found->second.output)];
}

void RecordedAcceptance::draft_guesses(uint64_t history, int32_t, int32_t count,
                                       std::vector<Candidate>* out) const {
  out->clear();
  if (all_places_.empty()) return;
  const auto found = places_.find(history);
  const Place place =
      found != places_.end() ? found->second : all_places_[history % all_places_.size()];
  const auto& guesses =
      texts_[static_cast<size_t>(place.text)].guesses[static_cast<size_t>(place.output)];
  const size_t taken = std::min(guesses.size(), static_cast<size_t>(std::max(count, 0)));
  out->assign(guesses.begin(), guesses.begin() + static_cast<std::ptrdiff_t>(taken));
}

Result<RecordedText> record_acceptance(Executor& executor, SequenceId sequence,
                                       const SequenceSpec& spec, std::span<const TokenId> tokens,
                                       int32_t prompt_tokens, int32_t count) {
  RecordedText text;
  text.tokens.assign(tokens.begin(), tokens.end());
  text.prompt_tokens = prompt_tokens;
  FORERUN_RETURN_IF_ERROR(executor.open(sequence, spec));
  WorkItem item;
  item.sequence = sequence;
  item.role = Role::kDraft;
  // The last token's row would guess at what is not there.
  for (size_t position = 0; position + 1 < tokens.size(); ++position) {
    WorkRow row;
    row.token = tokens[position];
    row.position = static_cast<int32_t>(position);
    if (row.position + 1 >= prompt_tokens) {
      row.want = Want::kTopK;
      row.count = count;
    }
    item.rows.push_back(row);
  }
  executor.submit(std::move(item));
  constexpr std::chrono::minutes kPatience{10};
  std::optional<WorkResult> result = executor.next(kPatience);
  executor.close(sequence);
  if (!result) {
    return Status(StatusCode::kDeadlineExceeded, "record_acceptance: no result of the draft");
  }
  FORERUN_RETURN_IF_ERROR(result->status);
  for (RowResult& row : result->rows) text.guesses.push_back(std::move(row.top));
  return text;
}

}  // namespace forerun
