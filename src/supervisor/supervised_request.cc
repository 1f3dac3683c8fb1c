#include "supervisor/supervised_request.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/later.h"
#include "forerun/sampling_params.h"

namespace forerun {

SupervisedRequest::SupervisedRequest(Request request)
    : request_(std::move(request)),
      submitted_(Clock::now()),
      samples_(static_cast<size_t>(request_.num_samples)) {
  if (request_.deadline.count() > 0) deadline_ = later(submitted_, request_.deadline);
  for (Sample& sample : samples_) sample.tokens = request_.resume_tokens;
}

void SupervisedRequest::connect(std::shared_ptr<EventQueue> queue, uint64_t tag,
                                RequestChannel::EngineSide engine) {
  channel_ = RequestChannel::open(std::move(queue), tag, request_.num_samples, std::move(engine));
  for (size_t idx = 0; idx < samples_.size(); ++idx) {
    samples_[idx].stream = std::make_shared<EventStream>(channel_, static_cast<int32_t>(idx));
  }
}

std::vector<std::pair<Request, int32_t>> SupervisedRequest::parts(bool plainly) const {
  Request whole = request_;
  if (plainly && whole.speculation) {
    whole.speculation = SpeculationOptions{.strategy = "autoregressive"};
  }
  if (deadline_) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(*deadline_ - Clock::now());
    whole.deadline = std::max(left, std::chrono::milliseconds(1));
  }
  const bool is_fresh = std::all_of(samples_.begin(), samples_.end(), [&](const Sample& sample) {
    return !sample.finished && !sample.scored &&
           sample.tokens.size() == request_.resume_tokens.size();
  });
  std::vector<std::pair<Request, int32_t>> parts;
  if (is_fresh) {
    parts.emplace_back(std::move(whole), -1);
    return parts;
  }
  const uint64_t seed = request_.sampling.seed.value_or(0);
  for (size_t idx = 0; idx < samples_.size(); ++idx) {
    if (samples_[idx].finished) continue;
    Request part = whole;
    part.num_samples = 1;
    part.sampling.seed = sample_seed(seed, static_cast<int32_t>(idx));
    part.resume_tokens = samples_[idx].tokens;
    if (samples_[idx].scored) part.sampling.prompt_logprobs = -1;
    parts.emplace_back(std::move(part), static_cast<int32_t>(idx));
  }
  return parts;
}

void SupervisedRequest::take(Event event, int32_t part, int launches) {
  const int32_t idx = part >= 0 ? part : event.sample_idx;
  if (idx < 0 || idx >= request_.num_samples) return;
  Sample& sample = samples_[static_cast<size_t>(idx)];
  if (sample.finished) return;
  sample.tokens.insert(sample.tokens.end(), event.tokens.begin(), event.tokens.end());
  if (!event.tokens.empty() && !sample.first_token) sample.first_token = Clock::now();
  sample.finished = event.finished;
  sample.scored |= !event.prompt_logprobs.empty();
  // A later launch knows when it started the request, not when the request was submitted.
  const auto since_submission = [this](Clock::time_point time) {
    return std::chrono::duration<double>(time - submitted_).count();
  };
  if (launches > 1 && !event.tokens.empty()) event.time_s = since_submission(Clock::now());
  if (event.finished && launches > 1 && sample.first_token) {
    event.stats.time_to_first_token_s = since_submission(*sample.first_token);
  }
  event.last = false;
  sample.stream->push(std::move(event));
}

void SupervisedRequest::end(FinishReason reason, const Status& error) {
  const uint64_t seed = request_.sampling.seed.value_or(0);
  for (size_t idx = 0; idx < samples_.size(); ++idx) {
    Sample& sample = samples_[idx];
    if (std::exchange(sample.finished, true)) continue;
    Event event;
    event.finished = true;
    event.reason = reason;
    event.error = error;
    event.stats.prompt_tokens = static_cast<int32_t>(request_.prompt_tokens.size());
    event.stats.output_tokens = static_cast<int32_t>(sample.tokens.size());
    event.stats.resumed_tokens = static_cast<int32_t>(request_.resume_tokens.size());
    event.stats.seed = sample_seed(seed, static_cast<int32_t>(idx));
    event.stats.strategy = "none";
    sample.stream->push(std::move(event));
  }
}

bool SupervisedRequest::has_finished() const {
  return std::all_of(samples_.begin(), samples_.end(),
                     [](const Sample& sample) { return sample.finished; });
}

Status SupervisedRequest::late(const std::string& why) const {
  return Status(StatusCode::kDeadlineExceeded,
                "the request's deadline of " + std::to_string(request_.deadline.count()) +
                    " ms has passed" + (why.empty() ? "" : ", waiting: " + why));
}

}  // namespace forerun
