#include "forerun/engine.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "drafts/draft_source.h"
#include "engine/active_request.h"
#include "engine/choose_split.h"
#include "engine/device_spec.h"
#include "engine/engine_loop.h"
#include "engine/loaded_models.h"
#include "engine/measure_costs.h"
#include "engine/opened_model.h"
#include "exec/emulated/step_emulator.h"
#include "kernels/isa.h"
#include "planner/choose_strategy.h"
#include "planner/cost_model.h"
#include "sampling/validate.h"
#include "strategies/acceptance.h"
#include "strategies/make_strategy.h"
#include "text/chat_template.h"

namespace forerun {

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "?";
}

namespace {

Result<Activation> parse_activation(const std::string& name) {
  for (Activation activation : {Activation::kF32, Activation::kBf16, Activation::kInt8}) {
    if (name == activation_name(activation)) return activation;
  }
  return Status(StatusCode::kInvalidArgument,
                "activations: found '" + name + "', accepted are bf16, f32 and int8");
}

Result<WeightOverride> parse_weights(const char* option, const std::string& name) {
  if (name == "as_stored") return WeightOverride::kAsStored;
  if (name == "bf16") return WeightOverride::kBf16;
  if (name == "f32") return WeightOverride::kF32;
  if (name == "int8") return WeightOverride::kInt8;
  return Status(StatusCode::kInvalidArgument, std::string(option) + ": found '" + name +
                                                  "', accepted are as_stored, bf16, f32 and int8");
}

struct DraftWeights {
  bool choose = false;  // by where the draft runs and how it is stored
  WeightOverride layers = WeightOverride::kAsStored;
  bool int4_head = false;
};

Result<DraftWeights> parse_draft_weights(const std::string& name) {
  if (name == "auto") return DraftWeights{.choose = true};
  if (name == "int4_head") return DraftWeights{.int4_head = true};
  const auto layers = parse_weights("draft_weights", name);
  if (layers.ok()) return DraftWeights{.layers = *layers};
  return Status(StatusCode::kInvalidArgument,
                "draft_weights: found '" + name +
                    "', accepted are auto, as_stored, bf16, f32, int8 and int4_head");
}

class EngineImpl : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> make(const EngineOptions& options);

  const EngineInfo& info() const override { return info_; }
  Result<std::shared_ptr<RequestStream>> submit(Request request) override;
  Result<std::vector<int32_t>> tokenize(const std::string& text,
                                        bool add_special_tokens) const override {
    return target_->tokenizer.encode(text, {.add_special_tokens = add_special_tokens});
  }
  std::string detokenize(const std::vector<int32_t>& tokens) const override {
    return target_->tokenizer.decode(tokens, /*skip_special=*/false);
  }
  Result<std::string> apply_chat_template(const std::string& messages_json) const override;
  EmulationStats emulation() const override {
    return emulator_ ? emulator_->stats() : EmulationStats{};
  }
  Trace take_trace() override { return recorder_.take(); }
  int64_t kv_blocks_in_use() const override { return loop_->kv_blocks_in_use(); }

 private:
  explicit EngineImpl(const EngineOptions& options) : options_(options) {}

  // Reads all but the weights; what is to be loaded, and where.
  Status open();
  // What the devices can compute with.
  Status check_numerics(Activation activation, WeightOverride weights,
                        const DraftWeights& draft_weights) const;
  const ModelPlacement& draft_placement() const {
    return placement_.draft ? *placement_.draft : placement_.target;
  }
  Status check_try_splits() const;
  // Loads the models where they were placed; with try_splits, where they serve best.
  Status load();
  Status start();
  Status emulate();
  void observe(const StepRecord& record);
  void fill_info();
  // Each model on a thread of its own: it has its own devices, or an emulated machine's.
  bool side_by_side() const {
    return !placement_.in_turn() || (draft_ && emulator_ && emulator_->profile().separate_devices);
  }
  CostTable costs() const;
  // The options as a strategy takes them; "auto" becomes what fits this engine.
  StrategyOptions strategy_options(const Request& request) const;
  Status check_request(Request& request) const;
  Status check_prompt(Request& request) const;

  EngineOptions options_;
  EngineInfo info_;
  std::optional<OpenedModel> target_, draft_;
  Placement placement_;
  ModelsToLoad to_load_;
  std::unique_ptr<LoadedModels> models_;
  std::unique_ptr<StepEmulator> emulator_;
  TraceRecorder recorder_;
  mutable std::mutex costs_mutex_;
  CostModel costs_;                    // under the mutex: Steps of either model report to it
  StrategyChoice choice_;              // what "auto" means where both models take turns
  std::optional<ChosenSplit> chosen_;  // with try_splits; its models have become models_
  std::shared_ptr<SharedAcceptance> shared_acceptance_;
  std::unique_ptr<EngineLoop> loop_;  // last: its thread uses all of the above
};

Result<std::unique_ptr<Engine>> EngineImpl::make(const EngineOptions& options) {
  auto engine = std::unique_ptr<EngineImpl>(new EngineImpl(options));
  FORERUN_RETURN_IF_ERROR(check_isa());
  Request probe;
  // Names and numbers are checked before gigabytes are read.
  FORERUN_RETURN_IF_ERROR(check_strategy_options(engine->strategy_options(probe)));
  FORERUN_ASSIGN_OR_RETURN(engine->placement_,
                           place_models(options.devices, options.draft_devices));
  FORERUN_RETURN_IF_ERROR(engine->emulate());
  FORERUN_RETURN_IF_ERROR(engine->open());
  FORERUN_RETURN_IF_ERROR(engine->load());
  FORERUN_RETURN_IF_ERROR(engine->start());
  return std::unique_ptr<Engine>(std::move(engine));
}

Status EngineImpl::open() {
  FORERUN_ASSIGN_OR_RETURN(const Activation activation, parse_activation(options_.activations));
  FORERUN_ASSIGN_OR_RETURN(const WeightOverride weights,
                           parse_weights("weights", options_.weights));
  FORERUN_ASSIGN_OR_RETURN(DraftWeights draft_weights, parse_draft_weights(options_.draft_weights));
  if (placement_.draft && options_.draft.empty()) {
    return Status(StatusCode::kInvalidArgument, "draft devices: found '" + options_.draft_devices +
                                                    "', but there is no draft model");
  }
  if (options_.max_active_requests < 1) {
    return Status(StatusCode::kInvalidArgument, "max_active_requests: found " +
                                                    std::to_string(options_.max_active_requests) +
                                                    ", accepted are 1 and more");
  }
  FORERUN_RETURN_IF_ERROR(check_try_splits());
  FORERUN_ASSIGN_OR_RETURN(target_, open_model(options_.model));
  if (!options_.draft.empty()) {
    FORERUN_ASSIGN_OR_RETURN(draft_, open_model(options_.draft));
    const Status same = check_same_tokenizer(target_->tokenizer, draft_->tokenizer);
    if (!same.ok()) {
      return same.with_context("draft " + options_.draft + " has another tokenizer than " +
                               options_.model);
    }
    const auto& stored = draft_->checkpoint.config().quantization;
    // Small models are bound by their weights' bytes; int8 costs guesses next to nothing.
    if (draft_weights.choose && stored.kind == QuantizationConfig::Kind::kNone &&
        !draft_placement().on_gpus()) {
      draft_weights.layers = WeightOverride::kInt8;
    }
  }
  FORERUN_RETURN_IF_ERROR(check_numerics(activation, weights, draft_weights));
  to_load_.models = {
      {{&*target_, weights, false},
       {draft_ ? &*draft_ : nullptr, draft_weights.layers, draft_weights.int4_head}}};
  to_load_.activation = activation;
  to_load_.options = &options_;
  return Status();
}

Status EngineImpl::check_numerics(Activation activation, WeightOverride weights,
                                  const DraftWeights& draft_weights) const {
  const auto refused = [this](const std::string& accepted) {
    return Status(StatusCode::kUnsupported,
                  "draft_weights: found '" + options_.draft_weights + "'; " + accepted);
  };
  const bool draft_on_gpu = draft_placement().on_gpus();
  if (draft_weights.int4_head) {
    if (!draft_) return refused("but there is no draft model");
    if (!draft_on_gpu) {
      return refused("on processors auto, as_stored, bf16, f32 and int8 are accepted");
    }
    constexpr int32_t kGroup = 128;  // of inputs that share a scale
    const int32_t inputs = draft_->checkpoint.config().hidden_size;
    if (inputs % kGroup != 0) {
      return refused("the draft's hidden_size is " + std::to_string(inputs) +
                     ", multiples of 128 are accepted");
    }
  }
  const bool any_gpu =
      placement_.target.on_gpus() || (placement_.draft && placement_.draft->on_gpus());
  if (!any_gpu) return Status();
  if (activation != Activation::kBf16) {
    return Status(StatusCode::kUnsupported,
                  "activations: found '" + options_.activations + "'; on a GPU bf16 is accepted");
  }
  if (placement_.target.on_gpus() && weights != WeightOverride::kAsStored) {
    return Status(StatusCode::kUnsupported,
                  "weights: found '" + options_.weights + "'; on a GPU as_stored is accepted");
  }
  if (draft_ && draft_on_gpu && draft_weights.layers != WeightOverride::kAsStored) {
    return refused("on a GPU auto, as_stored and int4_head are accepted");
  }
  return Status();
}

Status EngineImpl::check_try_splits() const {
  if (!options_.try_splits) return Status();
  const auto refused = [](const std::string& found) {
    return Status(
        StatusCode::kInvalidArgument,
        "auto: splits of the processors between target and draft are to be tried; found " + found);
  };
  if (options_.draft.empty()) return refused("no draft model");
  if (options_.speculation.strategy != "auto") {
    return refused("strategy '" + options_.speculation.strategy + "'; accepted beside it: auto");
  }
  if (placement_.draft) {
    return refused("draft devices '" + options_.draft_devices + "'; accepted beside it: none");
  }
  if (placement_.target.on_gpus()) {
    return refused("devices '" + options_.devices + "'; accepted beside it: processors");
  }
  if (emulator_) return refused("a machine to emulate; accepted beside it: none");
  return Status();
}

Status EngineImpl::load() {
  if (!options_.try_splits) {
    FORERUN_ASSIGN_OR_RETURN(models_, LoadedModels::load(to_load_, placement_));
    return Status();
  }
  std::vector<std::vector<int32_t>> prompts;
  for (const char* text : {"def main(args):\n    ", "The old house stood at the end of the"}) {
    FORERUN_ASSIGN_OR_RETURN(std::vector<int32_t> prompt,
                             target_->tokenizer.encode(text, {.add_special_tokens = true}));
    prompts.push_back(std::move(prompt));
  }
  FORERUN_ASSIGN_OR_RETURN(chosen_, choose_split(to_load_, splits_of(placement_), prompts));
  models_ = std::move(chosen_->models);
  placement_ = models_->placement();
  return Status();
}

Status EngineImpl::emulate() {
  if (options_.emulate.empty()) return Status();
  auto profile = load_step_profile(options_.emulate);
  if (!profile.ok()) return profile.status().with_context("emulate");
  if (!options_.draft.empty() && !profile->has(Role::kDraft)) {
    return Status(StatusCode::kInvalidArgument,
                  "emulate: profile " + profile->name +
                      " has no times for a draft; accepted are profiles that do, or no draft");
  }
  if (!placement_.in_turn() && !profile->separate_devices) {
    return Status(StatusCode::kInvalidArgument,
                  "draft devices: found '" + options_.draft_devices + "', but profile " +
                      profile->name +
                      " runs both models on the same devices in turn; accepted beside it: none, or "
                      "GPUs of the target's");
  }
  // Where both models compute on the same devices, only their sleeps overlap.
  emulator_ = std::make_unique<StepEmulator>(std::move(*profile), placement_.in_turn());
  return Status();
}

void EngineImpl::observe(const StepRecord& record) {
  if (options_.trace) recorder_.add_step(record);
  if (record.sequences != 1) return;
  const std::lock_guard lock(costs_mutex_);
  costs_.observe({record.role, record.rows, record.seconds + record.host_seconds});
}

CostTable EngineImpl::costs() const {
  const std::lock_guard lock(costs_mutex_);
  return costs_.table();
}

Status EngineImpl::start() {
  auto executor =
      models_->make_executor({.emulator = emulator_.get(),
                              .on_step = [this](const StepRecord& record) { observe(record); },
                              .trace = options_.trace});
  if (emulator_) {
    costs_ = costs_of(emulator_->profile());
  } else if (chosen_) {
    costs_ = chosen_->costs;
  } else {
    FORERUN_ASSIGN_OR_RETURN(
        costs_, measure_costs(*executor, draft_.has_value(), models_->kv_plan().max_context_tokens,
                              options_.on_progress));
  }
  choice_ = choose_strategy(
      {.costs = costs_.table(), .has_draft_model = draft_.has_value(), .rank_chances = {}});
  shared_acceptance_ = std::make_shared<SharedAcceptance>();
  fill_info();
  loop_ = std::make_unique<EngineLoop>(
      EngineLoop::Options{.max_active = options_.max_active_requests,
                          .shared_noise = options_.speculation.shared_noise,
                          .share_prefixes = options_.share_prefixes,
                          .recorder = options_.trace ? &recorder_ : nullptr},
      std::move(executor), [this](const Request& request) {
        // Submission has checked the options, so this cannot fail.
        return std::move(make_strategy(strategy_options(request), shared_acceptance_, costs()))
            .value();
      });
  return Status();
}

void EngineImpl::fill_info() {
  const ModelConfig& config = target_->checkpoint.config();
  info_.model_name = target_->checkpoint.dir().filename().string();
  const std::string backend =
      placement_.target.on_gpus() ? "cuda" : std::string("cpu ") + isa_name(current_isa());
  info_.numeric_fingerprint = backend + " tp" + std::to_string(models_->target_degree()) +
                              " weights=" +
                              (options_.weights != "as_stored" ? options_.weights
                               : config.quantization.kind == QuantizationConfig::Kind::kAwq
                                   ? "awq-int4"
                                   : std::string(dtype_name(config.dtype))) +
                              " activations=" + options_.activations;
  if (emulator_) {
    const StepProfile& profile = emulator_->profile();
    info_.emulated = profile.name + ": " + profile.machine + " (" + profile.source + ")";
  }
  info_.planner_report = describe_costs(costs_.table(), draft_.has_value()) + choice_.report;
  if (side_by_side()) info_.planner_report += "the draft has its own devices: parallel_tree\n";
  if (chosen_) {
    info_.planner_report +=
        chosen_->report + "numeric fingerprint: " + info_.numeric_fingerprint + "\n";
  }
  info_.max_context_tokens = models_->kv_plan().max_context_tokens;
  info_.kv_bytes = models_->kv_bytes();
  info_.eos_token_ids = target_->eos_token_ids();
  info_.default_sampling = default_sampling(target_->defaults);
}

StrategyOptions EngineImpl::strategy_options(const Request& request) const {
  const SpeculationOptions& wanted = request.speculation.value_or(options_.speculation);
  StrategyOptions options;
  options.name = wanted.strategy;
  if (wanted.strategy == "auto") {
    options.name = side_by_side() ? "parallel_tree" : "serial_tree";
    if (chosen_) options.extra_draft_steps = chosen_->plan.extra_draft_steps;
  }
  options.shape = wanted.shape;
  options.source = wanted.source;
  options.accept = wanted.accept;
  options.verify_tokens = wanted.verify_tokens;
  options.draft_width = wanted.draft_width;
  options.draft_depth = wanted.draft_depth;
  options.has_draft_model = !options_.draft.empty();
  if (target_) options.target_vocab = target_->live_vocab();
  if (draft_) options.draft_vocab = draft_->live_vocab();
  options.record_rounds = request.record_rounds || options_.trace;
  if (wanted.strategy != "auto") return options;
  options = parallel_or_serial(std::move(options));
  const bool planned_without_draft =
      draft_ && !side_by_side() && wanted.source.empty() && !choice_.source.empty();
  if (planned_without_draft && check_strategy_options(options).ok()) {
    // Trees of given sizes, and what takes a draft model alone, would cost more than they bring.
    if (options.shape == "adaptive" && options.accept == "match") {
      options.source = choice_.source;
    } else {
      options.name = "autoregressive";
    }
  }
  return options;
}

Status EngineImpl::check_prompt(Request& request) const {
  if (request.prompt_tokens.empty()) {
    FORERUN_ASSIGN_OR_RETURN(
        request.prompt_tokens,
        target_->tokenizer.encode(request.prompt,
                                  {.add_special_tokens = request.add_special_tokens}));
  }
  if (request.prompt_tokens.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "prompt: it is empty, and the tokenizer adds nothing to it; at least one token "
                  "is needed");
  }
  const int32_t vocab = target_->live_vocab();
  for (const int32_t token : request.prompt_tokens) {
    if (token < 0 || token >= vocab) {
      return Status(StatusCode::kInvalidArgument, "prompt: found token " + std::to_string(token) +
                                                      ", accepted are 0 to " +
                                                      std::to_string(vocab - 1));
    }
  }
  const auto prompt_size = static_cast<int64_t>(request.prompt_tokens.size());
  if (prompt_size >= info_.max_context_tokens) {
    return Status(StatusCode::kInvalidArgument,
                  "prompt: found " + std::to_string(prompt_size) + " tokens, the context holds " +
                      std::to_string(info_.max_context_tokens) + " with at least one to write");
  }
  return Status();
}

Status EngineImpl::check_request(Request& request) const {
  FORERUN_RETURN_IF_ERROR(validate_sampling_params(request.sampling, target_->live_vocab()));
  FORERUN_RETURN_IF_ERROR(check_strategy_options(strategy_options(request)));
  if (request.max_new_tokens < 1) {
    return Status(StatusCode::kInvalidArgument, "max_tokens: found " +
                                                    std::to_string(request.max_new_tokens) +
                                                    ", accepted are 1 and more");
  }
  FORERUN_RETURN_IF_ERROR(check_prompt(request));
  const int64_t room =
      info_.max_context_tokens - static_cast<int64_t>(request.prompt_tokens.size());
  request.max_new_tokens = static_cast<int32_t>(std::min<int64_t>(request.max_new_tokens, room));
  return Status();
}

Result<std::shared_ptr<RequestStream>> EngineImpl::submit(Request request) {
  FORERUN_RETURN_IF_ERROR(check_request(request));
  auto stream = std::make_shared<EventStream>([waker = loop_->waker()] { waker->wake(); });
  loop_->submit(std::make_unique<ActiveRequest>(std::move(request), target_->tokenizer,
                                                info_.eos_token_ids, stream));
  return std::shared_ptr<RequestStream>(std::move(stream));
}

Result<std::string> EngineImpl::apply_chat_template(const std::string& messages_json) const {
  FORERUN_ASSIGN_OR_RETURN(const ChatTemplate chat_template,
                           ChatTemplate::load(target_->checkpoint.dir()));
  ChatInput input;
  input.messages_json = messages_json;
  input.add_generation_prompt = true;
  return chat_template.render(input);
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
  return EngineImpl::make(options);
}

}  // namespace forerun
