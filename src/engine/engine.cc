#include "forerun/engine.h"

#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "engine/info/engine_info.h"
#include "engine/info/engine_text.h"
#include "engine/load/check_options.h"
#include "engine/load/device_spec.h"
#include "engine/load/device_splits.h"
#include "engine/load/draft_context.h"
#include "engine/load/host_agreement.h"
#include "engine/load/host_placement.h"
#include "engine/load/load_models.h"
#include "engine/load/loaded_costs.h"
#include "engine/load/loaded_models.h"
#include "engine/load/make_executor.h"
#include "engine/load/model_facts.h"
#include "engine/load/model_transfer.h"
#include "engine/load/models_to_load.h"
#include "engine/load/numerics_options.h"
#include "engine/load/opened_model.h"
#include "engine/load/source_arms.h"
#include "engine/load/stage_plan.h"
#include "engine/loop/active_request.h"
#include "engine/loop/engine_loop.h"
#include "engine/loop/kept_arms.h"
#include "engine/loop/request_handles.h"
#include "engine/submit/check_request.h"
#include "engine/submit/output_formats.h"
#include "engine/submit/submission.h"
#include "exec/emulated/stage_timeline.h"
#include "exec/emulated/step_emulator.h"
#include "exec/live_costs.h"
#include "hosts/hosts.h"
#include "kernels/isa.h"
#include "planner/choose_strategy.h"
#include "planner/measure_costs.h"
#include "strategies/speculation_plan.h"

namespace forerun {
namespace {

class EngineImpl : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> make(const EngineOptions& options);
  ~EngineImpl() override {
    loop_.reset();
    if (kept_arms_) kept_arms_->keep();
  }

  const EngineInfo& info() const override { return info_; }
  Result<std::shared_ptr<RequestStream>> submit(Request request) override;
  Result<std::shared_ptr<RequestHandle>> submit(Request request, CompletionQueue& queue,
                                                uint64_t tag) override;
  Result<std::vector<int32_t>> tokenize(const std::string& text,
                                        bool add_special_tokens) const override {
    return text_->tokenizer().encode(text, {.add_special_tokens = add_special_tokens});
  }
  Result<std::vector<int32_t>> tokenize_prompt(const std::string& text,
                                               bool add_special_tokens) const override {
    return prompt_tokens(opened_->target, info_.max_context_tokens, text, add_special_tokens);
  }
  std::string detokenize(const std::vector<int32_t>& tokens) const override {
    return text_->tokenizer().decode(tokens, /*skip_special=*/false);
  }
  bool prepare_format(const OutputFormat& format, bool quick) override {
    return !formats_ || formats_->prepare(format, quick);
  }
  Result<std::string> token_bytes(int32_t token) const override {
    return text_->token_bytes(token);
  }
  std::vector<std::string> control_tokens() const override { return text_->control_tokens(); }
  using Engine::apply_chat_template;
  Result<std::string> apply_chat_template(const ChatPrompt& prompt) const override {
    return text_->apply_chat_template(prompt);
  }
  std::string chat_template() const override { return text_->chat_template(); }
  EmulationStats emulation() const override {
    return emulator_ ? emulator_->stats() : EmulationStats{};
  }
  Trace take_trace() override { return recorder_.take(); }
  EngineLoad load() const override;
  int64_t kv_blocks_in_use() const override { return loop_->kv_blocks_in_use(); }

 private:
  explicit EngineImpl(const EngineOptions& options) : options_(options) {}

  // Reads everything but the weights, and decides what to load and on which devices.
  Status open();
  // Loads the models as they were placed, or, with try_splits, in the fastest placement.
  Status load_or_try_splits();
  Status start();
  // Makes automatic_. Recalls the rates of an earlier start from `place` if they may be `known`.
  Status choose_automatically(const CostPlace& place, bool known);
  // Checks the request and passes its samples to the loop; their events go to `queue`. May throw
  // std::bad_alloc.
  Result<std::shared_ptr<RequestChannel>> enqueue(Request request,
                                                  std::shared_ptr<EventQueue> queue, uint64_t tag);
  void observe(const StepRecord& record);
  // Returns whether each model runs on its own thread, since it has its own devices or those of an
  // emulated machine.
  bool concurrent() const {
    return !placement_.sequential() ||
           (models_->has_draft() && emulator_ && emulator_->profile().separate_devices);
  }

  EngineOptions options_;
  EngineInfo info_;
  std::optional<OpenedModels> opened_;
  std::string draft_context_;  // line of fit_draft_context() for the log; may be empty
  std::optional<EngineText> text_;
  Placement placement_;
  std::unique_ptr<ModelTransfer> transfer_;  // only where a host lacks the target
  ModelsToLoad to_load_;
  std::unique_ptr<LoadedModels> models_;
  std::unique_ptr<StepEmulator> emulator_;
  TraceRecorder recorder_;
  LiveCosts costs_;  // Steps of either model report to it
  ModelFacts facts_;
  ResolvePlan resolve_;
  std::shared_ptr<const SpeculationPlan> plan_;  // plan of requests without options
  std::optional<ChosenSplit> chosen_;            // only with try_splits
  SeedSource seeds_;
  std::optional<OutputFormats> formats_;
  std::unique_ptr<LoadMeter> load_;
  std::unique_ptr<AutoStrategy> automatic_;
  std::optional<KeptArms> kept_arms_;
  std::unique_ptr<EngineLoop> loop_;  // last: its thread uses all of the above
};

Result<std::unique_ptr<Engine>> EngineImpl::make(const EngineOptions& options) {
  auto engine = std::unique_ptr<EngineImpl>(new EngineImpl(options));
  FORERUN_RETURN_IF_ERROR(check_isa());
  // Checks names and numbers before gigabytes are read.
  FORERUN_RETURN_IF_ERROR(
      resolve_speculation(options.speculation, {.has_draft_model = !options.draft.empty()})
          .status());
  FORERUN_ASSIGN_OR_RETURN(
      engine->placement_,
      options.hosts != nullptr
          ? place_on_hosts(options)
          : place_models(options.devices, options.draft_devices, stages_of(options)));
  FORERUN_ASSIGN_OR_RETURN(engine->emulator_, make_emulator(options, engine->placement_));
  FORERUN_RETURN_IF_ERROR(engine->open());
  FORERUN_RETURN_IF_ERROR(engine->load_or_try_splits());
  FORERUN_RETURN_IF_ERROR(engine->start());
  return std::unique_ptr<Engine>(std::move(engine));
}

Status EngineImpl::open() {
  FORERUN_RETURN_IF_ERROR(parse_numerics(options_).status());
  FORERUN_RETURN_IF_ERROR(check_options(options_, placement_));
  FORERUN_ASSIGN_OR_RETURN(opened_, open_models(options_));
  FORERUN_ASSIGN_OR_RETURN(draft_context_, fit_draft_context(options_, *opened_));
  if (!draft_context_.empty()) log_line(LogLevel::kWarning, draft_context_);
  text_.emplace(opened_->target);
  facts_ = facts_of(*opened_);
  FORERUN_ASSIGN_OR_RETURN(to_load_, models_to_load(options_, placement_, *opened_));
  if (emulator_ && emulator_->profile().stages) {
    to_load_.emulated_stages = emulator_->profile().stages->stages;
  }
  if (options_.hosts == nullptr) return Status();
  FORERUN_ASSIGN_OR_RETURN(transfer_, ModelTransfer::offer(to_load_, placement_));
  if (transfer_ != nullptr) {
    to_load_.stage_layers = transfer_->stage_layers();
    to_load_.transfer = transfer_.get();
  }
  FORERUN_RETURN_IF_ERROR(options_.hosts->agree(facts_of_host(options_, to_load_, placement_)));
  return agree_on_isa(*options_.hosts);
}

Status EngineImpl::load_or_try_splits() {
  if (!options_.try_splits) {
    FORERUN_ASSIGN_OR_RETURN(models_, load_models(to_load_, placement_));
    return Status();
  }
  FORERUN_ASSIGN_OR_RETURN(TriedSplits tried, try_splits(to_load_, placement_, facts_));
  chosen_ = std::move(tried.chosen);
  models_ = std::move(tried.models);
  placement_ = models_->placement();
  return Status();
}

void EngineImpl::observe(const StepRecord& record) {
  if (options_.trace) recorder_.add_step(record);
  costs_.observe(record);
}

Status EngineImpl::start() {
  auto executor =
      make_executor(*models_, {.emulator = emulator_.get(),
                               .on_step = [this](const StepRecord& record) { observe(record); },
                               .trace = options_.trace,
                               .costs = &costs_,
                               .budget = {.seconds = 1e-3 * options_.step_budget_ms}});
  const CostPlace place = emulator_ ? CostPlace() : cost_place(to_load_, *models_);
  StartCosts known;
  if (emulator_) {
    known.costs = emulator_->profile().costs;
    if (emulator_->profile().stages)
      known.costs.set_stages(stage_costs(*emulator_->profile().stages));
  } else if (chosen_) {
    known.costs = chosen_->costs;
  } else {
    FORERUN_ASSIGN_OR_RETURN(
        known, costs_of(place, *models_, *executor, options_.measure_anew, options_.on_progress));
  }
  Placing placing{.concurrent = concurrent(), .target_stages = placement_.target.num_stages()};
  if (emulator_ && emulator_->profile().stages) {
    placing.target_stages = emulator_->profile().stages->stages;
  } else {
    known.costs.set_stages({.count = placing.target_stages});
  }
  const StrategyChoice choice = choose_strategy({.costs = known.costs.table(1, kReferenceContext),
                                                 .has_draft_model = models_->has_draft(),
                                                 .placing = placing});
  AutoChoice what_auto_means = choice.auto_choice;
  if (chosen_) what_auto_means.extra_draft_steps = chosen_->plan.extra_draft_steps;
  add_loaded(*models_, facts_);
  resolve_ = [facts = facts_, what_auto_means](const SpeculationOptions& asked) {
    return resolve_speculation(asked, facts, what_auto_means);
  };
  FORERUN_ASSIGN_OR_RETURN(plan_, resolve_(options_.speculation));
  info_ = describe_engine(options_, opened_->target, *models_,
                          emulator_ ? &emulator_->profile() : nullptr);
  if (known.from_cache) info_.planner_report = "step costs as measured by an earlier start\n";
  if (!draft_context_.empty()) info_.planner_report += draft_context_ + "\n";
  info_.planner_report += describe_stages(*models_, opened_->target.checkpoint.config());
  info_.planner_report += describe_costs(known.costs) + choice.report;
  if (chosen_) {
    info_.planner_report +=
        chosen_->report + "numeric fingerprint: " + info_.numeric_fingerprint + "\n";
  }
  costs_.set(std::move(known.costs));
  if (options_.hosts == nullptr) {
    formats_.emplace(opened_->target.tokenizer(), opened_->target.eos_token_ids());
  }
  load_ = std::make_unique<LoadMeter>(options_.max_waiting_requests < 0
                                          ? -1
                                          : int64_t{options_.max_active_requests} +
                                                options_.max_waiting_requests);
  FORERUN_RETURN_IF_ERROR(
      choose_automatically(place, known.from_cache || (chosen_ && !options_.measure_anew)));
  loop_ = std::make_unique<EngineLoop>(
      EngineLoop::Options{.max_active = options_.max_active_requests,
                          .share_prefixes = options_.share_prefixes,
                          .draft_keeps_all = options_.draft_window == 0,
                          .recorder = options_.trace ? &recorder_ : nullptr,
                          .costs = &costs_,
                          .drafts_sequentially = !concurrent(),
                          .priority_ageing = std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(options_.priority_ageing_s)),
                          .load = load_.get(),
                          .automatic = automatic_.get(),
                          .on_thread_start = [this] { pin_executors_caller(*models_); },
                          .on_idle =
                              [this] {
                                if (kept_arms_) kept_arms_->note_idle(Clock::now());
                              }},
      std::move(executor));
  return Status();
}

Status EngineImpl::choose_automatically(const CostPlace& place, bool known) {
  FORERUN_ASSIGN_OR_RETURN(const auto usual, resolve_({.strategy = "auto"}));
  std::vector<SpeculationCandidate> views =
      view_candidates(facts_, models_->kv_reads_per_selection(Role::kTarget), resolve_);
  const size_t num_views = views.size();
  automatic_ = std::make_unique<AutoStrategy>(source_arms(*usual), std::move(views), resolve_);
  if (place.folder.empty()) return Status();
  CostKey key = place.key;
  key["usual"] = describe(*usual);
  kept_arms_.emplace(automatic_.get(), ArmStore(KeyedFolder(place.folder / "arms"), std::move(key),
                                                automatic_->names(), num_views));
  // Kept rates are ratios to the costs of Steps at the time they were measured.
  if (known) info_.planner_report += kept_arms_->recall();
  return Status();
}

Result<std::shared_ptr<RequestChannel>> EngineImpl::enqueue(Request request,
                                                            std::shared_ptr<EventQueue> queue,
                                                            uint64_t tag) {
  std::shared_ptr<const SpeculationPlan> plan = plan_;
  if (request.speculation) {
    FORERUN_ASSIGN_OR_RETURN(plan, resolve_(*request.speculation));
  }
  FORERUN_ASSIGN_OR_RETURN(auto samples, make_samples(opened_->target, info_, options_.max_logprobs,
                                                      seeds_, formats_ ? &*formats_ : nullptr,
                                                      std::move(plan), std::move(request)));
  const auto num_samples = static_cast<int32_t>(samples.size());
  FORERUN_ASSIGN_OR_RETURN(auto places, load_->take_places(num_samples));
  // Handles may outlive the engine and its loop.
  auto channel = RequestChannel::open(std::move(queue), tag, num_samples,
                                      {[waker = loop_->waker()] { waker->wake(); }, resolve_});
  for (int32_t idx = 0; idx < num_samples; ++idx) {
    auto& sample = samples[static_cast<size_t>(idx)];
    sample->connect(std::make_shared<EventStream>(channel, idx),
                    std::move(places[static_cast<size_t>(idx)]));
    if (sample->is_over()) {
      sample->finish(sample->reason(), Status(), {}, "none");
    } else {
      loop_->submit(std::move(sample));
    }
  }
  return channel;
}

Status no_memory_to_submit() {
  return Status(StatusCode::kResourceExhausted, "submit: the process has no memory for a request");
}

Result<std::shared_ptr<RequestStream>> EngineImpl::submit(Request request) try {
  FORERUN_ASSIGN_OR_RETURN(auto channel,
                           enqueue(std::move(request), std::make_shared<EventQueue>(), 0));
  return std::shared_ptr<RequestStream>(std::make_shared<PulledRequest>(std::move(channel)));
} catch (const std::bad_alloc&) {
  return no_memory_to_submit();
}

Result<std::shared_ptr<RequestHandle>> EngineImpl::submit(Request request, CompletionQueue& queue,
                                                          uint64_t tag) try {
  FORERUN_ASSIGN_OR_RETURN(auto channel, enqueue(std::move(request), queue.events(), tag));
  return std::shared_ptr<RequestHandle>(std::make_shared<QueuedRequest>(std::move(channel)));
} catch (const std::bad_alloc&) {
  return no_memory_to_submit();
}

EngineLoad EngineImpl::load() const {
  EngineLoad load = load_->load();
  load.target_kv = loop_->kv_load(Role::kTarget);
  load.draft_kv = loop_->kv_load(Role::kDraft);
  if (const Status weights = models_->check_weights(Role::kTarget); !weights.ok()) {
    load.condition = EngineCondition::kGivenUp;
    load.condition_reason = weights.message();
  }
  return load;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
  auto engine = EngineImpl::make(options);
  if (!engine.ok() && options.hosts != nullptr) options.hosts->end(engine.status());
  return engine;
}

}  // namespace forerun
