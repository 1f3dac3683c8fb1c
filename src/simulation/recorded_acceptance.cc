#include "simulation/recorded_acceptance.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/status_macros.h"

namespace forerun {

Status RecordedAcceptance::check(const RecordedText& text) const {
  const auto size = static_cast<int32_t>(text.tokens.size());
  if (text.prompt_tokens < 1 || text.prompt_tokens >= size ||
      text.guesses.size() != static_cast<size_t>(size - text.prompt_tokens)) {
    return Status(
        StatusCode::kInvalidArgument,
        "recorded text: found " + std::to_string(size) + " tokens, " +
            std::to_string(text.prompt_tokens) + " of them in the prompt, and guesses at " +
            std::to_string(text.guesses.size()) +
            " tokens; accepted: at least one token each of prompt and output, and guesses "
            "at each token of the output");
  }
  const auto known = [this](TokenId token) { return token >= 0 && token < vocab_; };
  const auto all_known = [&](const std::vector<Candidate>& guesses) {
    return std::all_of(guesses.begin(), guesses.end(),
                       [&](const Candidate& guess) { return known(guess.token); });
  };
  bool good = std::all_of(text.tokens.begin(), text.tokens.end(), known) &&
              std::all_of(text.guesses.begin(), text.guesses.end(), all_known);
  for (const RecordedBranch& branch : text.branches) {
    good = good && known(branch.token) && all_known(branch.guesses);
  }
  if (!good) {
    return Status(StatusCode::kInvalidArgument,
                  "recorded text: found a token outside of the vocabulary; accepted: 0 to " +
                      std::to_string(vocab_ - 1));
  }
  for (size_t index = 0; index < text.branches.size(); ++index) {
    const int32_t parent = text.branches[index].parent;
    if (parent < static_cast<int32_t>(index) && parent >= text.prompt_tokens - size) continue;
    return Status(StatusCode::kInvalidArgument,
                  "recorded text: branch " + std::to_string(index) + ": found parent " +
                      std::to_string(parent) +
                      "; accepted: " + std::to_string(text.prompt_tokens - size) + " to " +
                      std::to_string(static_cast<int64_t>(index) - 1));
  }
  return {};
}

Status RecordedAcceptance::add(RecordedText text) {
  FORERUN_RETURN_IF_ERROR(check(text));
  const auto text_idx = static_cast<int32_t>(texts_.size());
  std::vector<uint64_t> before_output, of_branch;
  uint64_t history = 0;
  for (size_t position = 0; position + 1 < text.tokens.size(); ++position) {
    history = mix_hash(history, static_cast<uint64_t>(text.tokens[position]));
    const int32_t output = static_cast<int32_t>(position) + 1 - text.prompt_tokens;
    if (output < 0) continue;
    const Place place{.text = text_idx, .output = output};
    places_.try_emplace(history, place);
    on_text_.push_back(place);
    before_output.push_back(history);
  }
  for (const RecordedBranch& branch : text.branches) {
    const uint64_t parent = branch.parent < 0
                                ? before_output[static_cast<size_t>(-1 - branch.parent)]
                                : of_branch[static_cast<size_t>(branch.parent)];
    history = mix_hash(parent, static_cast<uint64_t>(branch.token));
    places_.try_emplace(history,
                        Place{.text = text_idx, .branch = static_cast<int32_t>(of_branch.size())});
    of_branch.push_back(history);
  }
  texts_.push_back(std::move(text));
  return {};
}

const std::vector<Candidate>& RecordedAcceptance::guesses_at(const Place& place) const {
  const RecordedText& text = texts_[static_cast<size_t>(place.text)];
  return place.output >= 0 ? text.guesses[static_cast<size_t>(place.output)]
                           : text.branches[static_cast<size_t>(place.branch)].guesses;
}

TokenId RecordedAcceptance::target_token(uint64_t history, int32_t) const {
  const auto found = places_.find(history);
  if (found == places_.end() || found->second.output < 0) {
    return static_cast<TokenId>(history % static_cast<uint64_t>(vocab_));
  }
  const RecordedText& text = texts_[static_cast<size_t>(found->second.text)];
  return text.tokens[static_cast<size_t>(text.prompt_tokens + found->second.output)];
}

void RecordedAcceptance::draft_guesses(uint64_t history, int32_t, int32_t count,
                                       std::vector<Candidate>* out) const {
  out->clear();
  if (on_text_.empty()) return;
  const auto found = places_.find(history);
  const auto& guesses =
      guesses_at(found != places_.end() ? found->second : on_text_[history % on_text_.size()]);
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
  // The row of the last token is left out, since no token follows it.
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
  constexpr std::chrono::minutes kDraftTimeout{10};
  std::optional<WorkResult> result = executor.next(kDraftTimeout);
  executor.close(sequence);
  if (!result) {
    return Status(StatusCode::kDeadlineExceeded, "record_acceptance: no result of the draft");
  }
  FORERUN_RETURN_IF_ERROR(result->status);
  for (RowResult& row : result->rows) text.guesses.push_back(std::move(row.top));
  return text;
}

}  // namespace forerun
