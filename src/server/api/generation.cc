#include "server/api/generation.h"

#include <string>
#include <utility>

namespace forerun::server {

constexpr int kClientLeft = 499;

Generation::Generation(EngineClient& client, EventLoop& loop, Metrics& metrics,
                       std::shared_ptr<Exchange> exchange, std::unique_ptr<AnswerWriter> writer,
                       std::function<void(const CallEnd&)> on_end)
    : client_(client),
      loop_(loop),
      metrics_(metrics),
      exchange_(std::move(exchange)),
      writer_(std::move(writer)),
      on_end_(std::move(on_end)) {}

void Generation::start(std::vector<Request> prompts, ParamNames names, bool prompts_are_listed) {
  names_ = std::move(names);
  prompts_left_ = prompts.size();
  last_token_s_.resize(prompts.size());
  Status refused;
  for (size_t idx = 0; idx < prompts.size() && refused.ok(); ++idx) {
    last_token_s_[idx].resize(static_cast<size_t>(prompts[idx].num_samples));
    auto handle =
        client_.submit(std::move(prompts[idx]),
                       [self = shared_from_this(), prompt_idx = static_cast<int32_t>(idx)](
                           Event&& event) { self->on_event(prompt_idx, std::move(event)); });
    refused = handle.status();
    if (refused.ok()) handles_.push_back(std::move(*handle));
    if (!refused.ok() && prompts_are_listed) {
      names_.emplace_back("prompt", "prompt[" + std::to_string(idx) + "]");
    }
  }
  loop_.post([self = shared_from_this(), refused] {
    if (!refused.ok()) return self->fail(api_error(refused, self->names_));
    self->begin();
  });
}

void Generation::cut_off(const std::string& why) { fail(api_error(503, why)); }

void Generation::begin() {
  if (ended_) return;  // it has been cut off before
  begun_ = true;
  exchange_->when_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->end(kClientLeft, "the client left");
  });
  if (ended_) return;
  writer_->begin(*exchange_);
  for (EarlyEvent& early : std::exchange(early_, {})) take(early.prompt_idx, early.event);
}

void Generation::on_event(int32_t prompt_idx, Event&& event) {
  if (ended_) return;
  if (!begun_) return early_.push_back({prompt_idx, std::move(event)});
  take(prompt_idx, event);
}

void Generation::take(int32_t prompt_idx, const Event& event) {
  if (ended_) return;
  double& last =
      last_token_s_[static_cast<size_t>(prompt_idx)][static_cast<size_t>(event.sample_idx)];
  if (!event.tokens.empty()) {
    if (last > 0.0) metrics_.observe_tokens(event.time_s - last, event.tokens.size());
    last = event.time_s;
  }
  if (event.finished) {
    metrics_.observe_end(event.stats, event.reason,
                         std::chrono::duration<double>(Clock::now() - start_).count());
    if (event.reason == FinishReason::kError) return fail(api_error(event.error, names_));
    if (event.reason == FinishReason::kCancelled) {
      return fail(api_error(503, "the request was cancelled: the server is ending"));
    }
    usage_.add(event);
  }
  writer_->take(*exchange_, prompt_idx, event);
  if (event.last && --prompts_left_ == 0) {
    writer_->finish(*exchange_);
    end(200, "");
  }
}

void Generation::fail(const ApiError& error) {
  if (ended_) return;
  if (begun_) {
    writer_->fail(*exchange_, error);
  } else {
    exchange_->respond(error_response(error));
  }
  end(error.status, error.message);
}

void Generation::end(int status, const std::string& message) {
  if (std::exchange(ended_, true)) return;
  handles_.clear();  // cancels the requests that still run
  on_end_({status, std::chrono::duration<double>(Clock::now() - start_).count(), usage_, message});
}

}  // namespace forerun::server
