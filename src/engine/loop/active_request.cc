#include "engine/loop/active_request.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/later.h"

namespace forerun {
namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Returns the log-probabilities of an EmittedToken or a RowResult: first the token's, then those of
// the alternatives.
template <class Token>
std::vector<TokenLogprob> to_logprobs(const Token& token) {
  std::vector<TokenLogprob> logprobs = {{token.token, token.logprob}};
  for (const Candidate& candidate : token.top) {
    logprobs.push_back({candidate.token, candidate.logprob});
  }
  return logprobs;
}

SpeculationRound to_round(const RoundRecord& record) {
  SpeculationRound round;
  for (const RoundRecord::Node& node : record.nodes) {
    round.nodes.push_back({node.token, node.parent, node.logprob, node.accepted, node.origin});
  }
  round.bonus = record.bonus;
  return round;
}

}  // namespace

ActiveRequest::ActiveRequest(Request request, SamplingParams sampling,
                             std::shared_ptr<const TokenConstraint> constraint,
                             std::shared_ptr<const SpeculationPlan> plan,
                             const Tokenizer& tokenizer, const std::vector<int32_t>& eos)
    : request_(std::move(request)),
      sampling_(std::move(sampling)),
      constraint_(std::move(constraint)),
      plan_(std::move(plan)),
      usual_plan_(plan_),
      end_tokens_(request_.stop_tokens),
      detokenizer_(tokenizer, request_.skip_special_tokens),
      stop_matcher_(request_.stop, request_.keep_stop),
      tokens_(request_.prompt_tokens),
      prompt_size_(static_cast<int32_t>(tokens_.size())),
      reported_tokens_(tokens_.size()),
      submitted_(Clock::now()) {
  std::copy_if(request_.stop_tokens.begin(), request_.stop_tokens.end(),
               std::back_inserter(own_ends_), [&](int32_t token) {
                 return request_.ignore_eos || std::count(eos.begin(), eos.end(), token) == 0;
               });
  if (!request_.ignore_eos) end_tokens_.insert(end_tokens_.end(), eos.begin(), eos.end());
  std::sort(end_tokens_.begin(), end_tokens_.end());
  // The output's text continues the prompt's: some decoders drop a space at the start of a stream,
  // and a character may begin in the prompt's last bytes.
  constexpr size_t kContext = 8;
  const size_t first = tokens_.size() > kContext ? tokens_.size() - kContext : 0;
  for (size_t idx = first; idx < tokens_.size(); ++idx) detokenizer_.push(tokens_[idx]);
  if (request_.deadline.count() > 0) deadline_ = later(submitted_, request_.deadline);
}

Status ActiveRequest::resume() {
  const std::vector<int32_t>& resumed = request_.resume_tokens;
  for (size_t idx = 0; idx < resumed.size(); ++idx) {
    EmittedToken token;
    token.token = resumed[idx];
    is_over_ = accept_token(token);
    if (is_over_ && idx + 1 < resumed.size()) {
      return Status(StatusCode::kInvalidArgument,
                    "resume_tokens: token " + std::to_string(token.token) + " at index " +
                        std::to_string(idx) + " ended the output (" + finish_reason_name(reason_) +
                        "), but " + std::to_string(resumed.size() - idx - 1) + " follow it");
    }
  }
  // Feeds the tokens to the detokenizer and drops their text, which has been sent already, except
  // an end that may belong to a stop string or an incomplete character.
  for (const TokenId token : without_text_) text_of(token);
  without_text_.clear();
  next_event_ = {};
  reported_tokens_ = tokens_.size();
  return {};
}

void ActiveRequest::connect(std::shared_ptr<EventStream> stream, LoadMeter::Place place) {
  stream_ = std::move(stream);
  place_ = std::move(place);
}

bool ActiveRequest::take_wanted_plan() {
  auto wanted = stream_->wanted_plan();
  if (wanted == nullptr || wanted == usual_plan_) return false;
  plan_ = usual_plan_ = std::move(wanted);
  ++strategy_changes_;
  return true;
}

bool ActiveRequest::follow(const std::shared_ptr<const SpeculationPlan>& plan) {
  if (plan == plan_) return false;
  plan_ = plan;
  ++strategy_changes_;
  return true;
}

bool ActiveRequest::accept_token(EmittedToken& token) {
  if (request_.max_new_tokens == 0) {
    reason_ = FinishReason::kLength;
    return true;
  }
  tokens_.push_back(token.token);
  next_event_.tokens.push_back(token.token);
  next_event_.drafted.push_back(token.drafted);
  if (sampling_.logprobs >= 0) next_event_.logprobs.push_back(to_logprobs(token));
  if (std::binary_search(end_tokens_.begin(), end_tokens_.end(), token.token)) {
    reason_ = FinishReason::kStop;
    if (std::count(own_ends_.begin(), own_ends_.end(), token.token) > 0) stop_token_ = token.token;
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

bool ActiveRequest::accept(StrategyOutput& out, Clock::time_point now) {
  if (!out.tokens.empty()) {
    last_token_ = now;
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

void ActiveRequest::note(const WorkResult& result, LoadMeter* load) {
  if (result.role == Role::kTarget && !std::exchange(has_read_, true) && load != nullptr) {
    load->note_prompt(static_cast<int64_t>(tokens_.size()) - result.reused_rows,
                      result.reused_rows);
  }
  RoleCount& count = counts_[static_cast<size_t>(result.role)];
  count.reused_rows += result.reused_rows;
  if (!result.scores.empty() && wants_scores()) {
    has_scores_ = true;
    for (const RowResult& score : result.scores) {
      next_event_.prompt_logprobs.push_back(to_logprobs(score));
    }
  }
  if (!std::exchange(count.has_read_text, true)) return;
  ++count.steps;
  count.step_seconds += result.step_seconds;
}

void ActiveRequest::report(LoadMeter& load, const char* strategy_name, const StrategyStats& stats) {
  load.note_progress(strategy_name, static_cast<int64_t>(tokens_.size() - reported_tokens_),
                     reported_, stats);
  reported_tokens_ = tokens_.size();
  reported_ = stats;
}

ActiveRequest::~ActiveRequest() {
  place_.give_back();
  if (stream_ != nullptr && !is_finished_) stream_->push_out_of_memory();
}

void ActiveRequest::send() {
  if (next_event_.tokens.empty() && next_event_.rounds.empty() &&
      next_event_.prompt_logprobs.empty()) {
    return;
  }
  for (const TokenId token : without_text_) next_event_.text += text_of(token);
  without_text_.clear();
  Event event;
  event.text = std::exchange(next_event_.text, {});
  // Copies these lists instead of moving them, so that next_event_ keeps its memory: devices wait
  // while accept() fills it.
  event.tokens = next_event_.tokens;
  event.drafted = next_event_.drafted;
  if (last_token_) event.time_s = seconds_between(submitted_, *last_token_);
  event.logprobs = std::exchange(next_event_.logprobs, {});
  event.prompt_logprobs = std::exchange(next_event_.prompt_logprobs, {});
  event.rounds = std::exchange(next_event_.rounds, {});
  next_event_.tokens.clear();
  next_event_.drafted.clear();
  stream_->push(std::move(event));
}

void ActiveRequest::finish(FinishReason reason, Status error, const StrategyStats& stats,
                           const std::string& strategy_name) {
  // Frees the place before the reader learns of the end and may submit its next request.
  place_.give_back();
  send();
  Event event;
  if (!stop_matcher_.stopped()) {
    event.text = stop_matcher_.push(detokenizer_.finish(), may_stop());
    event.text += stop_matcher_.finish();
  }
  event.finished = true;
  event.reason = reason;
  if (reason == FinishReason::kStop) {
    event.stop_text = stop_matcher_.stopped_by();
    event.stop_token = stop_token_;
  }
  event.error = std::move(error);
  RequestStats& out = event.stats;
  out.prompt_tokens = prompt_size_;
  out.output_tokens = static_cast<int32_t>(tokens_.size()) - prompt_size_;
  out.resumed_tokens = static_cast<int32_t>(request_.resume_tokens.size());
  out.seed = sampling_.seed;
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
  out.strategy_changes = strategy_changes_;
  stream_->push(std::move(event));
  is_finished_ = true;
}

}  // namespace forerun
