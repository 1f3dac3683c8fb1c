// Reads profile files.
#include <map>
#include <optional>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "exec/emulated/step_profile.h"
#include "json/field_reader.h"
#include "json/json_document.h"

namespace forerun {
namespace {

constexpr int64_t kMaxFileBytes = 8 << 20;
constexpr int64_t kMaxCount = 1 << 24;
constexpr int64_t kMaxStages = 1024;
constexpr double kMaxTime = 1e7;  // in ms or us: some hours
constexpr double kMinNumber = 1e-9;

struct Model {
  std::string name;
  std::string machine;
  std::vector<std::pair<StepLoad, double>> times;  // seconds
  bool has_context = false;
};

// Reads a number that must be present and positive.
double required_number(FieldReader& fields, std::string_view field, double max) {
  if (!fields.has(field)) {
    fields.refuse(field, "a number above 0");
    return 1.0;
  }
  return fields.number(field, kMinNumber, max).value_or(1.0f);
}

int32_t count(FieldReader& fields, std::string_view field, int32_t otherwise) {
  return static_cast<int32_t>(fields.integer(field, 1, kMaxCount).value_or(otherwise));
}

int32_t required_count(FieldReader& fields, std::string_view field) {
  return static_cast<int32_t>(fields.required_integer(field, 1, kMaxCount));
}

void read_steps(FieldReader& model_fields, Model& model) {
  auto entries = model_fields.objects("steps");
  if (!entries) return;
  for (size_t index = 0; index < entries->size(); ++index) {
    FieldReader& entry = (*entries)[index];
    entry.accept_only({"rows", "sequences", "context", "ms", "tokens_per_s", "steps", "source"});
    const int32_t rows = required_count(entry, "rows");
    const int32_t sequences = count(entry, "sequences", 1);
    if (rows < sequences) {
      entry.refuse("rows", "at least as many as sequences, " + std::to_string(sequences));
    }
    const auto context = entry.integer("context", 1, kMaxCount);
    if (index == 0) model.has_context = context.has_value();
    if (context.has_value() != model.has_context) {
      entry.refuse("context", "a context in all entries of a model or in none");
    }
    if (entry.has("ms") == entry.has("tokens_per_s")) {
      entry.refuse("ms", "either ms or tokens_per_s", StatusCode::kInvalidArgument,
                   entry.has("ms") ? "both" : "neither");
    }
    double seconds = 0.0;
    if (entry.has("ms")) {
      seconds = 1e-3 * required_number(entry, "ms", kMaxTime) / count(entry, "steps", 1);
    } else {
      seconds = sequences / required_number(entry, "tokens_per_s", kMaxTime);
    }
    entry.required_string("source");
    if (!entry.ok()) return;
    model.times.push_back({{rows, context.value_or(0) * sequences}, seconds});
  }
}

void check_operators(FieldReader& model_fields) {
  auto entries = model_fields.objects("operators");
  if (!entries) return;
  for (FieldReader& entry : *entries) {
    entry.accept_only({"operator", "by", "context", "rows", "us", "source"});
    entry.required_string("operator");
    entry.required_string("by");
    entry.required_string("source");
    required_count(entry, "rows");
    count(entry, "context", 1);
    required_number(entry, "us", kMaxTime);
  }
}

std::map<std::string, Model> read_models(FieldReader& top) {
  std::map<std::string, Model> models;
  auto all = top.object("models");
  if (!all) {
    top.refuse("models", "an object");
    return models;
  }
  for (const std::string& id : all->keys()) {
    auto fields = all->object(id);
    if (!fields) {
      all->refuse(id, "an object");
      break;
    }
    fields->accept_only({"model", "devices", "machine", "steps", "operators"});
    Model model;
    model.name = fields->required_string("model");
    required_count(*fields, "devices");
    model.machine = fields->string("machine").value_or("");
    read_steps(*fields, model);
    check_operators(*fields);
    if (!fields->ok()) break;
    models.emplace(id, std::move(model));
  }
  return models;
}

// Reads a row of a published table and adds three times that follow from it.
void read_round(FieldReader& fields, StepProfile& profile) {
  fields.accept_only({"source", "task", "batch", "prefill", "gamma", "gamma_t_d_ms", "t_v_ms",
                      "omega", "t_ar_ms", "t_sd_ms", "speedup"});
  PublishedRound round;
  round.source = fields.required_string("source");
  fields.string("task");
  round.batch = required_count(fields, "batch");
  round.prefill = required_count(fields, "prefill");
  round.gamma = required_count(fields, "gamma");
  round.gamma_draft_seconds = 1e-3 * required_number(fields, "gamma_t_d_ms", kMaxTime);
  round.verify_seconds = 1e-3 * required_number(fields, "t_v_ms", kMaxTime);
  round.tokens_per_round = required_number(fields, "omega", kMaxTime);
  round.plain_seconds = 1e-3 * required_number(fields, "t_ar_ms", kMaxTime);
  round.speculative_seconds = 1e-3 * required_number(fields, "t_sd_ms", kMaxTime);
  round.speedup = required_number(fields, "speedup", kMaxTime);
  if (!fields.ok()) return;
  const int64_t kv_tokens = int64_t{round.batch} * round.prefill;
  StepCosts& costs = profile.costs;
  costs.add(Role::kTarget, {round.batch, kv_tokens}, round.plain_seconds);
  costs.add(Role::kTarget, {round.batch * (round.gamma + 1), kv_tokens}, round.verify_seconds);
  costs.add(Role::kDraft, {round.batch, kv_tokens}, round.gamma_draft_seconds / round.gamma);
  profile.rounds.push_back(std::move(round));
}

// Reads the model that a profile names for a role, and adds its times to the profile.
void take_model(FieldReader& fields, const char* field, Role role,
                const std::map<std::string, Model>& models, StepProfile& profile) {
  const std::string id = fields.required_string(field);
  if (!fields.ok()) return;
  const auto found = models.find(id);
  if (found == models.end()) {
    fields.refuse(field, "the id of one of the file's models");
    return;
  }
  profile.models[static_cast<size_t>(role)] = found->second.name;
  for (const auto& [load, seconds] : found->second.times) profile.costs.add(role, load, seconds);
  if (profile.machine.empty() && role == Role::kTarget) profile.machine = found->second.machine;
}

void read_stages(FieldReader& fields, StepProfile& profile) {
  fields.accept_only({"count", "layers", "row_bytes", "gbit_per_s", "latency_ms"});
  StageChain& chain = profile.stages.emplace();
  chain.stages = static_cast<int32_t>(fields.required_integer("count", 2, kMaxStages));
  chain.layers = required_count(fields, "layers");
  chain.row_bytes = required_count(fields, "row_bytes");
  chain.bytes_per_s = 1e9 / 8 * required_number(fields, "gbit_per_s", kMaxTime);
  chain.latency_seconds = 1e-3 * required_number(fields, "latency_ms", kMaxTime);
}

StepProfile read_profile(FieldReader& fields, const std::map<std::string, Model>& models) {
  StepProfile profile;
  fields.accept_only({"devices", "machine", "target", "draft", "stages", "rounds", "notes"});
  const std::string devices = fields.required_string("devices");
  if (devices != "shared" && devices != "separate") {
    fields.refuse("devices", "\"shared\" or \"separate\"");
  }
  profile.separate_devices = devices == "separate";
  profile.machine = fields.string("machine").value_or("");
  take_model(fields, "target", Role::kTarget, models, profile);
  if (fields.has("draft")) take_model(fields, "draft", Role::kDraft, models, profile);
  if (auto stages = fields.object("stages")) {
    read_stages(*stages, profile);
    if (!profile.separate_devices) {
      fields.refuse("devices", "\"separate\" with stages");
    }
  }
  profile.notes = fields.strings("notes").value_or(std::vector<std::string>{});
  if (auto rounds = fields.objects("rounds")) {
    if (!rounds->empty() && (profile.has(Role::kTarget) || profile.has(Role::kDraft))) {
      fields.refuse("rounds", "no rounds where the profile's models have steps of their own");
    }
    for (FieldReader& round : *rounds) {
      if (fields.ok()) read_round(round, profile);
    }
  }
  if (!profile.has(Role::kTarget)) {
    fields.refuse("target", "a model with steps, or rounds");
  }
  if (fields.has("draft") && !profile.has(Role::kDraft)) {
    fields.refuse("draft", "a model with steps, or rounds");
  }
  return profile;
}

Result<std::vector<StepProfile>> profiles_of(const JsonDocument& document) {
  FieldReader top(document.root());
  top.accept_only({"forerun_profiles", "source", "machine", "models", "profiles"});
  top.required_integer("forerun_profiles", 1, 1);
  const std::string source = top.required_string("source");
  const std::string machine = top.required_string("machine");
  const std::map<std::string, Model> models = read_models(top);
  std::vector<StepProfile> profiles;
  auto all = top.object("profiles");
  if (!all || all->keys().empty()) {
    top.refuse("profiles", "an object with at least one profile");
  }
  FORERUN_RETURN_IF_ERROR(top.status());
  for (const std::string& name : all->keys()) {
    auto fields = all->object(name);
    if (!fields) all->refuse(name, "an object");
    FORERUN_RETURN_IF_ERROR(top.status());
    StepProfile profile = read_profile(*fields, models);
    FORERUN_RETURN_IF_ERROR(top.status());
    profile.name = name;
    profile.source = source;
    if (profile.machine.empty()) profile.machine = machine;
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

}  // namespace

Result<std::vector<StepProfile>> parse_step_profiles(std::string_view text,
                                                     const std::string& name) {
  FORERUN_ASSIGN_OR_RETURN(const JsonDocument document,
                           JsonDocument::parse(text, name, /*refuse_repeated_keys=*/true));
  return profiles_of(document);
}

Result<std::vector<StepProfile>> read_step_profiles(const std::filesystem::path& file) {
  FORERUN_ASSIGN_OR_RETURN(const JsonDocument document,
                           JsonDocument::read(file, kMaxFileBytes, /*refuse_repeated_keys=*/true));
  return profiles_of(document);
}

Result<StepProfile> load_step_profile(const std::string& spec) {
  const size_t hash = spec.rfind('#');
  const std::string file = spec.substr(0, hash);
  FORERUN_ASSIGN_OR_RETURN(std::vector<StepProfile> profiles, read_step_profiles(file));
  if (hash == std::string::npos && profiles.size() == 1) return std::move(profiles.front());
  std::string names;
  for (StepProfile& profile : profiles) {
    if (hash != std::string::npos && profile.name == spec.substr(hash + 1)) {
      return std::move(profile);
    }
    names += (names.empty() ? "" : ", ") + profile.name;
  }
  return Status(StatusCode::kInvalidArgument,
                file + ": found " +
                    (hash == std::string::npos ? "no #NAME" : in_quotes(spec.substr(hash + 1))) +
                    "; accepted after #: " + names);
}

}  // namespace forerun
