#include "engine/load/opened_model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/gguf/gguf_fields.h"
#include "engine/load/model_text.h"
#include "forerun/sampling_fields.h"

namespace forerun {

int32_t OpenedModel::live_vocab() const {
  const ModelConfig& config = checkpoint.config();
  return std::min({tokenizer().vocab_size(), config.vocab_size,
                   config.live_vocab_size.value_or(config.vocab_size)});
}

std::vector<int32_t> OpenedModel::eos_token_ids() const {
  std::vector<int32_t> ids =
      defaults.eos_token_ids.empty() ? checkpoint.config().eos_token_ids : defaults.eos_token_ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Result<OpenedModel> open_model(const std::string& model) {
  FORERUN_ASSIGN_OR_RETURN(const std::filesystem::path path, resolve_checkpoint(model));
  FORERUN_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(path));
  FORERUN_ASSIGN_OR_RETURN(Tokenizer tokenizer, load_tokenizer(checkpoint));
  FORERUN_ASSIGN_OR_RETURN(GenerationDefaults defaults, checkpoint.generation_defaults());
  return OpenedModel{std::move(checkpoint), std::make_shared<const Tokenizer>(std::move(tokenizer)),
                     std::move(defaults)};
}

Result<OpenedModel> open_draft(const EngineOptions& options, const OpenedModel& target) {
  FORERUN_ASSIGN_OR_RETURN(const std::filesystem::path path, resolve_checkpoint(options.draft));
  FORERUN_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open_draft(path));
  if (!checkpoint.config().eagle3) {
    FORERUN_ASSIGN_OR_RETURN(Tokenizer tokenizer, load_tokenizer(checkpoint));
    const Status same = check_same_tokenizer(target.tokenizer(), tokenizer);
    if (!same.ok()) {
      return same.with_context("draft " + options.draft + " has another tokenizer than " +
                               options.model);
    }
    return OpenedModel{
        std::move(checkpoint), std::make_shared<const Tokenizer>(std::move(tokenizer)), {}};
  }
  const auto taps = fit_eagle3(checkpoint.config(), target.checkpoint.config());
  if (!taps.ok()) return taps.status().with_context("draft " + options.draft);
  return OpenedModel{std::move(checkpoint), target.shared_tokenizer, {}};
}

void tell_fields_not_read(const Checkpoint& checkpoint) {
  if (checkpoint.gguf() == nullptr) return;
  const std::vector<std::string> fields = unread_gguf_fields(*checkpoint.gguf());
  if (fields.empty()) return;
  std::string line = checkpoint.path().string() + ": found ";
  for (const std::string& field : fields) line += field + (&field == &fields.back() ? "" : ", ");
  log_line(LogLevel::kWarning, line + ", which Forerun does not read; the model runs without");
}

// Logs the target's defaults that are not applied; the draft's defaults are not used at all.
void tell_defaults_not_applied(const OpenedModel& target) {
  if (target.defaults.not_applied.empty()) return;
  std::string line = target.checkpoint.path().string() + ": found ";
  for (const std::string& name : target.defaults.not_applied) {
    line += printable(name) + (name == target.defaults.not_applied.back() ? "" : ", ");
  }
  log_line(LogLevel::kWarning, line +
                                   ", which Forerun does not apply; sampling follows the file's "
                                   "other defaults and the request");
}

Result<OpenedModels> open_models(const EngineOptions& options) {
  FORERUN_ASSIGN_OR_RETURN(OpenedModel target, open_model(options.model));
  tell_defaults_not_applied(target);
  tell_fields_not_read(target.checkpoint);
  OpenedModels models{std::move(target), std::nullopt};
  if (options.draft.empty()) return models;
  FORERUN_ASSIGN_OR_RETURN(models.draft, open_draft(options, models.target));
  tell_fields_not_read(models.draft->checkpoint);
  return models;
}

SamplingParams default_sampling(const GenerationDefaults& defaults) {
  SamplingParams params;
  for_each_sampling_field([&](const auto& field) {
    params.*field.param = (defaults.sampling.*field.option).value_or(params.*field.param);
  });
  params.top_k = std::max(params.top_k, 0);  // -1 and 0 both keep all
  // Without do_sample the temperature decides, as in vLLM; transformers would decode greedily.
  if (!defaults.do_sample.value_or(defaults.sampling.temperature.has_value())) {
    params.temperature = 0.0f;
  }
  return params;
}

}  // namespace forerun
