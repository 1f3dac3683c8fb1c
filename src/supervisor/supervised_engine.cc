#include "supervisor/supervised_engine.h"

#include <new>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "engine/info/engine_text.h"
#include "engine/load/opened_model.h"
#include "engine/loop/request_handles.h"
#include "engine/submit/check_request.h"
#include "engine/submit/submission.h"
#include "forerun/sampling_fields.h"
#include "strategies/speculation_plan.h"
#include "supervisor/launch_supervisor.h"

namespace forerun {
namespace {

class SupervisedEngine : public Engine {
 public:
  SupervisedEngine(SupervisorOptions options, OpenedModel target)
      : options_(options.engine),
        target_(std::move(target)),
        text_(target_),
        supervisor_(LaunchSupervisor::start(std::move(options))) {}
  ~SupervisedEngine() override { supervisor_->stop(); }

  Status start() {
    FORERUN_ASSIGN_OR_RETURN(info_, supervisor_->wait_until_ready());
    return {};
  }

  const EngineInfo& info() const override { return info_; }
  Result<std::shared_ptr<RequestStream>> submit(Request request) override try {
    FORERUN_ASSIGN_OR_RETURN(auto channel,
                             enqueue(std::move(request), std::make_shared<EventQueue>(), 0));
    return std::shared_ptr<RequestStream>(std::make_shared<PulledRequest>(std::move(channel)));
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  Result<std::shared_ptr<RequestHandle>> submit(Request request, CompletionQueue& queue,
                                                uint64_t tag) override try {
    FORERUN_ASSIGN_OR_RETURN(auto channel, enqueue(std::move(request), queue.events(), tag));
    return std::shared_ptr<RequestHandle>(std::make_shared<QueuedRequest>(std::move(channel)));
  } catch (const std::bad_alloc&) {
    return no_memory();
  }

  bool prepare_format(const OutputFormat& format, bool quick) override {
    return format.kind == OutputFormat::Kind::kAny || supervisor_->prepare_format(format, quick);
  }
  Result<std::vector<int32_t>> tokenize(const std::string& text,
                                        bool add_special_tokens) const override {
    return text_.tokenizer().encode(text, {.add_special_tokens = add_special_tokens});
  }
  Result<std::vector<int32_t>> tokenize_prompt(const std::string& text,
                                               bool add_special_tokens) const override {
    return prompt_tokens(target_, info_.max_context_tokens, text, add_special_tokens);
  }
  std::string detokenize(const std::vector<int32_t>& tokens) const override {
    return text_.tokenizer().decode(tokens, /*skip_special=*/false);
  }
  Result<std::string> token_bytes(int32_t token) const override { return text_.token_bytes(token); }
  std::vector<std::string> control_tokens() const override { return text_.control_tokens(); }
  using Engine::apply_chat_template;
  Result<std::string> apply_chat_template(const ChatPrompt& prompt) const override {
    return text_.apply_chat_template(prompt);
  }
  std::string chat_template() const override { return text_.chat_template(); }
  EmulationStats emulation() const override { return supervisor_->state().emulation; }
  Trace take_trace() override { return {}; }
  EngineLoad load() const override { return supervisor_->state().load; }
  int64_t kv_blocks_in_use() const override { return supervisor_->state().kv_blocks; }

 private:
  static Status no_memory() {
    return Status(StatusCode::kResourceExhausted,
                  "submit: the process has no memory for a request");
  }

  // Fills in all fields that can be determined without the launch. The prompt becomes tokens, and
  // the seed is chosen here, so that another launch gives the same output.
  Status complete(Request& request) {
    const SamplingParams params =
        resolve_sampling(request.sampling, info_.default_sampling, seeds_.next());
    FORERUN_RETURN_IF_ERROR(check_sampling(params, target_.live_vocab(), options_.max_logprobs));
    FORERUN_RETURN_IF_ERROR(check_request(target_, info_.max_context_tokens, request));
    if (request.speculation) {
      const ModelFacts facts{.has_draft_model = !options_.draft.empty()};
      FORERUN_RETURN_IF_ERROR(resolve_speculation(*request.speculation, facts).status());
    }
    request.prompt.clear();
    for_each_sampling_field(
        [&](const auto& field) { request.sampling.*field.option = params.*field.param; });
    request.sampling.seed = params.seed;
    return {};
  }

  Result<std::shared_ptr<RequestChannel>> enqueue(Request request,
                                                  std::shared_ptr<EventQueue> queue, uint64_t tag) {
    FORERUN_RETURN_IF_ERROR(complete(request));
    return supervisor_->submit(std::move(request), std::move(queue), tag);
  }

  const EngineOptions options_;
  const OpenedModel target_;
  const EngineText text_;
  EngineInfo info_;
  SeedSource seeds_;
  const std::shared_ptr<LaunchSupervisor> supervisor_;
};

}  // namespace

Result<std::unique_ptr<Engine>> create_supervised_engine(SupervisorOptions options) {
  options.engine.hosts.reset();
  options.engine.trace = false;
  FORERUN_ASSIGN_OR_RETURN(OpenedModel target, open_model(options.engine.model));
  auto engine = std::make_unique<SupervisedEngine>(std::move(options), std::move(target));
  FORERUN_RETURN_IF_ERROR(engine->start());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace forerun
