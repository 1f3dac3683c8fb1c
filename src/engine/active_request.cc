#include "engine/active_request.h"

#include <algorithm>
#include <utility>

namespace forerun {
namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::vector<TokenLogprob> to_logprobs(const EmittedToken& token) {
  std::vector<TokenLogprob> logprobs = {{token.token, token.logprob}};
  for (const Candidate& candidate : token.top) {
    logprobs.push_back({candidate.token, candidate.logprob});
  }
  return logprobs;
}

SpeculationRound to_round(const RoundRecord& record) {
  SpeculationRound round;
  for (const RoundRecord::Node& node : record.nodes) {
    round.nodes.push_back({node.token, node.parent, node.logprob, node.accepted});
  }
  round.bonus = record.bonus;
  return round;
}

}  // namespace

ActiveRequest::ActiveRequest(Request request, std::shared_ptr<const SpeculationPlan> plan,
                             const Tokenizer& tokenizer, const std::vector<int32_t>& eos,
                             std::shared_ptr<EventStream> stream)
    : request_(std::move(request)),
      plan_(std::move(plan)),
      end_tokens_(request_.stop_tokens),
      stream_(std::move(stream)),
      detokenizer_(tokenizer, request_.skip_special_tokens),
      stop_matcher_(request_.stop),
      tokens_(request_.prompt_tokens),
      prompt_size_(static_cast<int32_t>(tokens_.size())),
      submitted_(Clock::now()) {
  if (!request_.ignore_eos) end_tokens_.insert(end_tokens_.end(), eos.begin(), eos.end());
  std::sort(end_tokens_.begin(), end_tokens_.end());
  // The text goes on from the prompt's: some decoders drop a space at the start of a stream only,
  // and a character may begin in the prompt's last bytes.
  constexpr size_t kContext = 8;
  const size_t first = tokens_.size() > kContext ? tokens_.size() - kContext : 0;
  for (size_t idx = first; idx < tokens_.size(); ++idx) detokenizer_.push(tokens_[idx]);
  if (request_.deadline.count() > 0) deadline_ = submitted_ + request_.deadline;
}

bool ActiveRequest::accept_token(EmittedToken& token) {
  tokens_.push_back(token.token);
  next_event_.tokens.push_back(token.token);
  next_event_.drafted.push_back(token.drafted);
  if (request_.sampling.logprobs >= 0) next_event_.logprobs.push_back(to_logprobs(token));
  if (std::binary_search(end_tokens_.begin(), end_tokens_.end(), token.token)) {
    reason_ = FinishReason::kStop;
    return true;
  }
  if (request_.stop.empty()) {
    without_text_.push_back(token.token);
  } else {
    next_event_.text += text_of(token.token);
    if (stop_matcher_.stopped()) {
      reason_ = FinishReason::kStop;
      return true;
    }
  }
  if (static_cast<int32_t>(tokens_.size()) >= max_tokens()) {
    reason_ = FinishReason::kLength;
    return true;
  }
  return false;
}

bool ActiveRequest::accept(StrategyOutput& out) {
  if (!out.tokens.empty()) {
    last_token_ = Clock::now();
    if (!first_token_) first_token_ = last_token_;
  }
  bool ended = false;
  for (EmittedToken& token : out.tokens) {
    ended = accept_token(token);
    if (ended) break;
  }
  for (const RoundRecord& record : out.rounds) next_event_.rounds.push_back(to_round(record));
  return ended;
}

void ActiveRequest::note(const WorkResult& result) {
  RoleCount& count = counts_[static_cast<size_t>(result.role)];
  count.reused_rows += result.reused_rows;
  if (count.results++ > 0) count.step_seconds += result.step_seconds;
}

void ActiveRequest::send() {
  if (next_event_.tokens.empty() && next_event_.rounds.empty()) return;
  for (const TokenId token : without_text_) next_event_.text += text_of(token);
  without_text_.clear();
  stream_->push(std::exchange(next_event_, Event{}));
}

void ActiveRequest::finish(FinishReason reason, Status error, const StrategyStats& stats,
                           const std::string& strategy_name) {
  send();
  Event event;
  if (!stop_matcher_.stopped()) {
    event.text = stop_matcher_.push(detokenizer_.finish());
    event.text += stop_matcher_.finish();
  }
  event.finished = true;
  event.reason = reason;
  event.error = std::move(error);
  RequestStats& out = event.stats;
  out.prompt_tokens = prompt_size_;
  out.output_tokens = static_cast<int32_t>(tokens_.size()) - prompt_size_;
  out.target_steps = stats.target_steps;
  out.draft_steps = stats.draft_steps;
  out.drafted_tokens = stats.drafted_tokens;
  out.accepted_tokens = stats.accepted_tokens;
  out.preemptions = preemptions_;
  const auto& [target, draft] = counts_;
  out.reused_tokens = target.reused_rows;
  out.draft_reused_tokens = draft.reused_rows;
  out.target_step_s = target.mean_step_s();
  out.draft_step_s = draft.mean_step_s();
  if (first_token_) {
    out.time_to_first_token_s = seconds_between(submitted_, *first_token_);
    out.decode_s = seconds_between(*first_token_, *last_token_);
  }
  out.strategy = strategy_name;
  stream_->push(std::move(event));
}

}  // namespace forerun
