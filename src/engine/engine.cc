#include "forerun/engine.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "drafts/draft_source.h"
#include "engine/active_request.h"
#include "engine/device_spec.h"
#include "engine/engine_loop.h"
#include "engine/gpu.h"
#include "engine/kv_plan.h"
#include "engine/measure_costs.h"
#include "engine/opened_model.h"
#include "exec/cpu_step_runner.h"
#include "exec/emulated/step_emulator.h"
#include "exec/real_executor.h"
#include "kernels/isa.h"
#include "model/cpu_decoder.h"
#include "model/decoder_memory.h"
#include "model/memory_limit.h"
#include "model/shard_plan.h"
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

// A model with everything it runs on.
struct Loaded {
  OpenedModel opened;
  CpuDeviceGroup* devices = nullptr;  // samples, and runs the passes where there is no gpu
  std::optional<int32_t> gpu;
  std::unique_ptr<Decoder> decoder;
};

class EngineImpl : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> make(const EngineOptions& options);

  const EngineInfo& info() const override { return info_; }
  Result<std::shared_ptr<RequestStream>> submit(Request request) override;
  Result<std::vector<int32_t>> tokenize(const std::string& text,
                                        bool add_special_tokens) const override {
    return target_->opened.tokenizer.encode(text, {.add_special_tokens = add_special_tokens});
  }
  std::string detokenize(const std::vector<int32_t>& tokens) const override {
    return target_->opened.tokenizer.decode(tokens, /*skip_special=*/false);
  }
  Result<std::string> apply_chat_template(const std::string& messages_json) const override;
  EmulationStats emulation() const override {
    return emulator_ ? emulator_->stats() : EmulationStats{};
  }
  Trace take_trace() override { return recorder_.take(); }
  int64_t kv_blocks_in_use() const override { return loop_->kv_blocks_in_use(); }

 private:
  explicit EngineImpl(const EngineOptions& options) : options_(options) {}

  Status open();
  // What the devices can compute with.
  Status check_numerics(Activation activation, WeightOverride weights) const;
  Status plan_memory(Activation activation);
  Status load(Loaded& model, const char* what, int64_t kv_blocks, Activation activation,
              WeightOverride weights);
  Status start();
  Status emulate();
  void observe(const StepRecord& record);
  void fill_info();
  // Each model on a thread of its own: it has its own processors, or an emulated machine's.
  bool side_by_side() const {
    return draft_devices_ || (draft_ && emulator_ && emulator_->profile().separate_devices);
  }
  CostTable costs() const;
  // The options as a strategy takes them; "auto" becomes what fits this engine.
  StrategyOptions strategy_options(const Request& request) const;
  Status check_request(Request& request) const;
  Status check_prompt(Request& request) const;

  EngineOptions options_;
  EngineInfo info_;
  std::unique_ptr<CpuDeviceGroup> devices_;        // the target's
  std::unique_ptr<CpuDeviceGroup> draft_devices_;  // null: the target's, in turn
  std::unique_ptr<Loaded> target_, draft_;
  KvPlan kv_plan_;
  std::unique_ptr<StepEmulator> emulator_;
  TraceRecorder recorder_;
  mutable std::mutex costs_mutex_;
  CostModel costs_;        // under the mutex: Steps of either model report to it
  StrategyChoice choice_;  // what "auto" means
  std::shared_ptr<SharedAcceptance> shared_acceptance_;
  std::unique_ptr<EngineLoop> loop_;  // last: its thread uses all of the above
};

Result<std::unique_ptr<Engine>> EngineImpl::make(const EngineOptions& options) {
  auto engine = std::unique_ptr<EngineImpl>(new EngineImpl(options));
  FORERUN_RETURN_IF_ERROR(check_isa());
  Request probe;
  // Names and numbers are checked before gigabytes are read.
  FORERUN_RETURN_IF_ERROR(check_strategy_options(engine->strategy_options(probe)));
  FORERUN_RETURN_IF_ERROR(engine->emulate());
  FORERUN_RETURN_IF_ERROR(engine->open());
  FORERUN_RETURN_IF_ERROR(engine->start());
  return std::unique_ptr<Engine>(std::move(engine));
}

Status EngineImpl::open() {
  FORERUN_ASSIGN_OR_RETURN(const Activation activation, parse_activation(options_.activations));
  FORERUN_ASSIGN_OR_RETURN(const WeightOverride weights,
                           parse_weights("weights", options_.weights));
  const bool draft_weights_given = options_.draft_weights != "auto";
  FORERUN_ASSIGN_OR_RETURN(
      WeightOverride draft_weights,
      parse_weights("draft_weights", draft_weights_given ? options_.draft_weights : "as_stored"));
  FORERUN_ASSIGN_OR_RETURN(const Placement placement,
                           place_models(options_.devices, options_.draft_devices));
  if (placement.draft && options_.draft.empty()) {
    return Status(StatusCode::kInvalidArgument, "draft devices: found '" + options_.draft_devices +
                                                    "', but there is no draft model");
  }
  if (options_.max_active_requests < 1) {
    return Status(StatusCode::kInvalidArgument, "max_active_requests: found " +
                                                    std::to_string(options_.max_active_requests) +
                                                    ", accepted are 1 and more");
  }
  FORERUN_ASSIGN_OR_RETURN(devices_, CpuDeviceGroup::create({.devices = placement.target.devices}));
  if (placement.draft) {
    FORERUN_ASSIGN_OR_RETURN(draft_devices_,
                             CpuDeviceGroup::create({.devices = placement.draft->devices}));
  }
  FORERUN_ASSIGN_OR_RETURN(OpenedModel target, open_model(options_.model));
  target_ = std::make_unique<Loaded>(
      Loaded{std::move(target), devices_.get(), placement.target.gpu, nullptr});
  if (!options_.draft.empty()) {
    FORERUN_ASSIGN_OR_RETURN(OpenedModel draft, open_model(options_.draft));
    CpuDeviceGroup* devices = draft_devices_ ? draft_devices_.get() : devices_.get();
    const ModelPlacement& at = placement.draft ? *placement.draft : placement.target;
    draft_ = std::make_unique<Loaded>(Loaded{std::move(draft), devices, at.gpu, nullptr});
    const Status same = check_same_tokenizer(target_->opened.tokenizer, draft_->opened.tokenizer);
    if (!same.ok()) {
      return same.with_context("draft " + options_.draft + " has another tokenizer than " +
                               options_.model);
    }
  }
  FORERUN_RETURN_IF_ERROR(check_numerics(activation, weights));
  FORERUN_RETURN_IF_ERROR(plan_memory(activation));
  FORERUN_RETURN_IF_ERROR(load(*target_, "target", kv_plan_.target_blocks, activation, weights));
  if (draft_) {
    const auto& stored = draft_->opened.checkpoint.config().quantization;
    // Small models are bound by their weights' bytes; int8 costs guesses next to nothing.
    if (!draft_weights_given && stored.kind == QuantizationConfig::Kind::kNone) {
      draft_weights = WeightOverride::kInt8;
    }
    FORERUN_RETURN_IF_ERROR(
        load(*draft_, "draft", kv_plan_.draft_blocks, activation, draft_weights));
  }
  return Status();
}

Status EngineImpl::check_numerics(Activation activation, WeightOverride weights) const {
  const bool any_gpu = target_->gpu || (draft_ && draft_->gpu);
  if (!any_gpu) return Status();
  if (activation != Activation::kBf16) {
    return Status(StatusCode::kUnsupported,
                  "activations: found '" + options_.activations + "'; on a GPU bf16 is accepted");
  }
  if (target_->gpu && weights != WeightOverride::kAsStored) {
    return Status(StatusCode::kUnsupported,
                  "weights: found '" + options_.weights + "'; on a GPU as_stored is accepted");
  }
  return Status();
}

Status EngineImpl::plan_memory(Activation activation) {
  std::vector<KvMemory> memories;
  int32_t longest_context = std::numeric_limits<int32_t>::max();
  for (const Loaded* model : {target_.get(), draft_.get()}) {
    if (model == nullptr) continue;
    const Checkpoint& checkpoint = model->opened.checkpoint;
    longest_context = std::min(longest_context, checkpoint.config().max_position);
    const std::string name = model->gpu ? "cuda:" + std::to_string(*model->gpu) : "this machine";
    auto memory = std::find_if(memories.begin(), memories.end(),
                               [&](const KvMemory& other) { return other.name == name; });
    if (memory == memories.end()) {
      int64_t available = memory_limit().available_bytes;
      if (model->gpu) {
        FORERUN_ASSIGN_OR_RETURN(const GpuMemory gpu, gpu_memory(*model->gpu));
        available = gpu.free_bytes;
      }
      memory = memories.insert(memories.end(), {name, available, 0, {}});
    }
    if (model->gpu) {
      const GpuModelMemory needs = gpu_model_memory(checkpoint);
      memory->available_bytes -= needs.weight_bytes + needs.buffer_bytes;
      memory->default_bytes = memory->available_bytes / 10 * 9;
      memory->token_bytes.push_back(needs.kv_block_bytes / kKvBlockTokens);
      continue;
    }
    auto plan = make_shard_plan(checkpoint.config(), model->devices->degree(),
                                checkpoint.config().vocab_size);
    if (!plan.ok()) return plan.status().with_context(checkpoint.dir().string());
    for (const DecoderMemory& device :
         estimate_group_memory(checkpoint, WeightOverride::kAsStored, activation, *plan)) {
      memory->token_bytes.push_back(device.kv_bytes_per_token);
    }
    memory->default_bytes = memory->available_bytes / 2;
  }
  FORERUN_ASSIGN_OR_RETURN(kv_plan_,
                           plan_kv(options_, longest_context, draft_ != nullptr, memories));
  return Status();
}

Status EngineImpl::load(Loaded& model, const char* what, int64_t kv_blocks, Activation activation,
                        WeightOverride weights) {
  std::function<void(double)> progress;
  if (options_.on_progress) {
    progress = [this, what](double fraction) {
      options_.on_progress(std::string("loading ") + what, fraction);
    };
  }
  if (model.gpu) {
    FORERUN_ASSIGN_OR_RETURN(model.decoder,
                             load_on_gpu(model.opened.checkpoint, *model.gpu, kv_blocks,
                                         model.opened.live_vocab(), std::move(progress)));
    return Status();
  }
  CpuDecoderOptions options;
  options.activation = activation;
  options.weights = weights;
  options.kv_blocks = kv_blocks;
  options.live_vocab = model.opened.live_vocab();
  options.progress = std::move(progress);
  FORERUN_ASSIGN_OR_RETURN(
      model.decoder, CpuDecoder::load(model.opened.checkpoint, model.devices, std::move(options)));
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
  if (!options_.draft_devices.empty() && !profile->separate_devices) {
    return Status(StatusCode::kInvalidArgument,
                  "draft devices: found '" + options_.draft_devices + "', but profile " +
                      profile->name +
                      " runs both models on the same devices in turn; accepted beside it: none");
  }
  // Where both models compute on the same processors, only their sleeps overlap.
  const bool one_step_at_a_time = options_.draft_devices.empty();
  emulator_ = std::make_unique<StepEmulator>(std::move(*profile), one_step_at_a_time);
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
  const auto runner_of = [&](const std::unique_ptr<Loaded>& model) -> std::unique_ptr<StepRunner> {
    if (!model) return nullptr;
    auto runner = std::make_unique<CpuStepRunner>(model->decoder.get(), model->devices,
                                                  model->opened.live_vocab());
    if (!emulator_) return runner;
    return emulator_->wrap(model == target_ ? Role::kTarget : Role::kDraft, std::move(runner));
  };
  RealExecutorOptions executor_options;
  executor_options.runners[static_cast<size_t>(Role::kTarget)] = runner_of(target_);
  executor_options.runners[static_cast<size_t>(Role::kDraft)] = runner_of(draft_);
  executor_options.threaded.fill(side_by_side());
  if (draft_devices_) {
    executor_options.on_thread_start = [this](Role role) {
      (role == Role::kTarget ? target_ : draft_)->devices->pin_caller();
    };
  }
  executor_options.on_step = [this](const StepRecord& record) { observe(record); };
  executor_options.trace = options_.trace;
  auto executor = std::make_unique<RealExecutor>(std::move(executor_options));
  if (emulator_) {
    costs_ = costs_of(emulator_->profile());
  } else {
    FORERUN_ASSIGN_OR_RETURN(
        costs_, measure_costs(*executor, draft_ != nullptr, kv_plan_.max_context_tokens,
                              options_.on_progress));
  }
  choice_ = choose_strategy(
      {.costs = costs_.table(), .has_draft_model = draft_ != nullptr, .rank_chances = {}});
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
  const ModelConfig& config = target_->opened.checkpoint.config();
  info_.model_name = target_->opened.checkpoint.dir().filename().string();
  const std::string backend = target_->gpu ? "cuda" : std::string("cpu ") + isa_name(current_isa());
  info_.numeric_fingerprint = backend + " tp" + std::to_string(devices_->degree()) + " weights=" +
                              (options_.weights != "as_stored" ? options_.weights
                               : config.quantization.kind == QuantizationConfig::Kind::kAwq
                                   ? "awq-int4"
                                   : std::string(dtype_name(config.dtype))) +
                              " activations=" + options_.activations;
  if (emulator_) {
    const StepProfile& profile = emulator_->profile();
    info_.emulated = profile.name + ": " + profile.machine + " (" + profile.source + ")";
  }
  info_.planner_report = describe_costs(costs_.table(), draft_ != nullptr) + choice_.report;
  if (side_by_side()) info_.planner_report += "the draft has its own processors: parallel_tree\n";
  info_.max_context_tokens = kv_plan_.max_context_tokens;
  info_.kv_bytes = kv_plan_.target_blocks * target_->decoder->kv_block_bytes();
  if (draft_) info_.kv_bytes += kv_plan_.draft_blocks * draft_->decoder->kv_block_bytes();
  info_.eos_token_ids = target_->opened.eos_token_ids();
  info_.default_sampling = default_sampling(target_->opened.defaults);
}

StrategyOptions EngineImpl::strategy_options(const Request& request) const {
  const SpeculationOptions& wanted = request.speculation.value_or(options_.speculation);
  StrategyOptions options;
  options.name = wanted.strategy;
  if (wanted.strategy == "auto") {
    // Guesses from the text so far cost nothing; the adaptive shape decides whether they pay.
    options.name = draft_ && wanted.source.empty() ? choice_.name : "serial_tree";
    if (side_by_side()) options.name = "parallel_tree";
  }
  options.shape = wanted.shape;
  options.source = wanted.source;
  options.accept = wanted.accept;
  options.verify_tokens = wanted.verify_tokens;
  options.draft_width = wanted.draft_width;
  options.draft_depth = wanted.draft_depth;
  options.has_draft_model = !options_.draft.empty();
  if (target_) options.target_vocab = target_->opened.live_vocab();
  if (draft_) options.draft_vocab = draft_->opened.live_vocab();
  options.record_rounds = request.record_rounds || options_.trace;
  // What parallel_tree does not take is serial_tree's.
  if (wanted.strategy == "auto" && options.name == "parallel_tree" &&
      !check_strategy_options(options).ok()) {
    options.name = "serial_tree";
  }
  return options;
}

Status EngineImpl::check_prompt(Request& request) const {
  if (request.prompt_tokens.empty()) {
    FORERUN_ASSIGN_OR_RETURN(
        request.prompt_tokens,
        target_->opened.tokenizer.encode(request.prompt,
                                         {.add_special_tokens = request.add_special_tokens}));
  }
  if (request.prompt_tokens.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "prompt: it is empty, and the tokenizer adds nothing to it; at least one token "
                  "is needed");
  }
  const int32_t vocab = target_->opened.live_vocab();
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
  FORERUN_RETURN_IF_ERROR(validate_sampling_params(request.sampling, target_->opened.live_vocab()));
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
  loop_->submit(std::make_unique<ActiveRequest>(std::move(request), target_->opened.tokenizer,
                                                info_.eos_token_ids, stream));
  return std::shared_ptr<RequestStream>(std::move(stream));
}

Result<std::string> EngineImpl::apply_chat_template(const std::string& messages_json) const {
  FORERUN_ASSIGN_OR_RETURN(const ChatTemplate chat_template,
                           ChatTemplate::load(target_->opened.checkpoint.dir()));
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
