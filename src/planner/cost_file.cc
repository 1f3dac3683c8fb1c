#include "planner/cost_file.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status_macros.h"
#include "json/field_reader.h"
#include "json/json_document.h"
#include "step/types.h"

namespace forerun {
namespace {

// Grows whenever the file's fields, or the meaning of its numbers, change.
constexpr int64_t kVersion = 1;
constexpr int64_t kMaxRows = 1 << 16;
constexpr int64_t kMaxKvTokens = int64_t{1} << 40;
constexpr double kMaxSeconds = 3600.0;
constexpr double kMinSeconds = 1e-12;

double required_seconds(FieldReader& fields, std::string_view field, double min_seconds) {
  if (!fields.has(field)) {
    fields.refuse(field, "seconds", StatusCode::kCorrupt);
    return min_seconds;
  }
  return fields.number(field, min_seconds, kMaxSeconds).value_or(static_cast<float>(min_seconds));
}

void read_role(FieldReader& fields, Role role, StepCosts& costs) {
  fields.accept_only(
      {"seconds_per_kv_token", "seconds_per_attended_token", "seconds_per_sequence", "steps"});
  costs.set_slopes(
      role, {.per_kv_token = required_seconds(fields, "seconds_per_kv_token", 0.0),
             .per_attended_token = required_seconds(fields, "seconds_per_attended_token", 0.0),
             .per_sequence = required_seconds(fields, "seconds_per_sequence", 0.0)});
  auto steps = fields.objects("steps");
  if (!steps || steps->empty()) {
    fields.refuse("steps", "a list of at least one measured Step", StatusCode::kCorrupt);
    return;
  }
  for (FieldReader& step : *steps) {
    step.accept_only({"rows", "kv_tokens", "seconds"});
    const auto rows = static_cast<int32_t>(step.required_integer("rows", 1, kMaxRows));
    const int64_t kv_tokens = step.required_integer("kv_tokens", 0, kMaxKvTokens);
    const double seconds = required_seconds(step, "seconds", kMinSeconds);
    if (!fields.ok()) return;
    costs.add(role, {.rows = rows, .kv_tokens = kv_tokens}, seconds);
  }
}

nlohmann::ordered_json role_as_json(const StepCosts& costs, Role role) {
  // Written in single precision, since the reader sees single precision.
  const auto seconds = [](double value) { return static_cast<float>(value); };
  const StepCosts::Slopes& slopes = costs.slopes(role);
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const StepCosts::Entry& entry : costs.entries(role)) {
    steps.push_back({{"rows", entry.rows},
                     {"kv_tokens", entry.kv_tokens},
                     {"seconds", seconds(entry.seconds)}});
  }
  return {{"seconds_per_kv_token", seconds(slopes.per_kv_token)},
          {"seconds_per_attended_token", seconds(slopes.per_attended_token)},
          {"seconds_per_sequence", seconds(slopes.per_sequence)},
          {"steps", std::move(steps)}};
}

}  // namespace

std::string write_cost_file(const CostFile& file) {
  nlohmann::ordered_json key = nlohmann::ordered_json::object();
  for (const auto& [name, value] : file.key) key[name] = value;
  nlohmann::ordered_json json = {{"forerun_step_costs", kVersion}, {"key", std::move(key)}};
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (file.costs.has(role)) json[role_name(role)] = role_as_json(file.costs, role);
  }
  // A key that is not valid UTF-8 must not end the process; it is then not found again.
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<CostFile> parse_cost_file(std::string_view text, const std::string& name) {
  FORERUN_ASSIGN_OR_RETURN(const JsonDocument document,
                           JsonDocument::parse(text, name, /*refuse_repeated_keys=*/true));
  FieldReader top(document.root());
  top.accept_only({"forerun_step_costs", "key", "target", "draft"});
  top.required_integer("forerun_step_costs", kVersion, kVersion);
  CostFile file;
  if (auto key = top.object("key")) {
    for (const std::string& field : key->keys()) {
      file.key[field] = key->string(field).value_or("");
    }
  } else {
    top.refuse("key", "an object", StatusCode::kCorrupt);
  }
  if (!top.has("target")) top.refuse("target", "an object", StatusCode::kCorrupt);
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (auto fields = top.object(role_name(role))) read_role(*fields, role, file.costs);
  }
  FORERUN_RETURN_IF_ERROR(top.status());
  return file;
}

}  // namespace forerun
