#include "planner/arm_file.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status_macros.h"
#include "json/field_reader.h"
#include "json/json_document.h"

namespace forerun {
namespace {

// Grows whenever the file's fields, or the meaning of its numbers, change.
constexpr int64_t kArmFileVersion = 1;

struct NumberRange {
  double min;
  double max;
  // Compares in single precision, since the reader sees single precision.
  bool has(double value) const {
    return static_cast<float>(value) >= min && static_cast<float>(value) <= max;
  }
};
constexpr NumberRange kSequencesRange = {1.0, 1 << 20};
constexpr NumberRange kContextRange = {1.0, 1LL << 40};
constexpr NumberRange kRatioRange = {0.02, 50.0};
constexpr NumberRange kCountRange = {1e-3, 1e6};
constexpr NumberRange kNoiseRange = {0.0, 10.0};
constexpr NumberRange kNoiseCountRange = {0.0, 1e6};
constexpr NumberRange kGuessesRange = {0.0, 1e12};

double required(FieldReader& fields, std::string_view field, NumberRange range) {
  if (!fields.has(field)) {
    fields.refuse(field, "a number", StatusCode::kCorrupt);
    return range.min;
  }
  return fields.number(field, range.min, range.max).value_or(static_cast<float>(range.min));
}

std::vector<FieldReader> required_objects(FieldReader& fields, std::string_view field) {
  auto objects = fields.objects(field);
  if (!objects) fields.refuse(field, "a list of objects", StatusCode::kCorrupt);
  return objects ? std::move(*objects) : std::vector<FieldReader>();
}

MeasuredArm read_arm(FieldReader& fields) {
  fields.accept_only({"noise", "noise_count", "spread", "spread_count", "loads"});
  MeasuredArm arm = {.noise = required(fields, "noise", kNoiseRange),
                     .noise_count = required(fields, "noise_count", kNoiseCountRange),
                     .spread = required(fields, "spread", kNoiseRange),
                     .spread_count = required(fields, "spread_count", kNoiseCountRange),
                     .loads = {}};
  for (FieldReader& load : required_objects(fields, "loads")) {
    load.accept_only({"sequences", "context_tokens", "ratio", "count"});
    arm.loads.push_back({.sequences = required(load, "sequences", kSequencesRange),
                         .context_tokens = required(load, "context_tokens", kContextRange),
                         .ratio = required(load, "ratio", kRatioRange),
                         .count = required(load, "count", kCountRange)});
  }
  return arm;
}

MeasuredGuesses read_guesses(FieldReader& fields) {
  fields.accept_only({"seen", "right"});
  const double seen = required(fields, "seen", kGuessesRange);
  return {.seen = seen, .right = required(fields, "right", {0.0, seen})};
}

nlohmann::ordered_json arm_as_json(const MeasuredArm& arm) {
  nlohmann::ordered_json loads = nlohmann::ordered_json::array();
  for (const MeasuredLoad& load : arm.loads) {
    if (!kSequencesRange.has(load.sequences) || !kContextRange.has(load.context_tokens) ||
        !kRatioRange.has(load.ratio) || !kCountRange.has(load.count)) {
      continue;
    }
    loads.push_back({{"sequences", static_cast<float>(load.sequences)},
                     {"context_tokens", static_cast<float>(load.context_tokens)},
                     {"ratio", static_cast<float>(load.ratio)},
                     {"count", static_cast<float>(load.count)}});
  }
  // A number out of its range (or NaN) becomes 0, since the reader would refuse the whole file.
  const auto number = [](NumberRange range, double value) {
    return range.has(value) ? static_cast<float>(value) : 0.0f;
  };
  return {{"noise", number(kNoiseRange, arm.noise)},
          {"noise_count", number(kNoiseCountRange, arm.noise_count)},
          {"spread", number(kNoiseRange, arm.spread)},
          {"spread_count", number(kNoiseCountRange, arm.spread_count)},
          {"loads", std::move(loads)}};
}

nlohmann::ordered_json guesses_as_json(const MeasuredGuesses& guesses) {
  // Counts out of their range become 0, since the reader would refuse the file.
  const bool good =
      kGuessesRange.has(guesses.seen) && NumberRange{0.0, guesses.seen}.has(guesses.right);
  const auto seen = good ? static_cast<float>(guesses.seen) : 0.0f;
  return {{"seen", seen}, {"right", good ? static_cast<float>(guesses.right) : 0.0f}};
}

}  // namespace

std::string write_arm_file(const ArmFile& file) {
  nlohmann::ordered_json key = nlohmann::ordered_json::object();
  for (const auto& [name, value] : file.key) key[name] = value;
  nlohmann::ordered_json arms = nlohmann::ordered_json::array();
  for (const MeasuredArm& arm : file.measured.arms) arms.push_back(arm_as_json(arm));
  nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
  for (const MeasuredGuesses& each : file.measured.candidates) {
    candidates.push_back(guesses_as_json(each));
  }
  const nlohmann::ordered_json json = {{"forerun_arms", kArmFileVersion},
                                       {"key", std::move(key)},
                                       {"arms", std::move(arms)},
                                       {"candidates", std::move(candidates)}};
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<ArmFile> parse_arm_file(std::string_view text, const std::string& name) {
  FORERUN_ASSIGN_OR_RETURN(const JsonDocument document,
                           JsonDocument::parse(text, name, /*refuse_repeated_keys=*/true));
  FieldReader top(document.root());
  top.accept_only({"forerun_arms", "key", "arms", "candidates"});
  top.required_integer("forerun_arms", kArmFileVersion, kArmFileVersion);
  ArmFile file;
  if (auto key = top.object("key")) {
    for (const std::string& field : key->keys()) {
      file.key[field] = key->string(field).value_or("");
    }
  } else {
    top.refuse("key", "an object", StatusCode::kCorrupt);
  }
  for (FieldReader& arm : required_objects(top, "arms")) {
    file.measured.arms.push_back(read_arm(arm));
  }
  for (FieldReader& each : required_objects(top, "candidates")) {
    file.measured.candidates.push_back(read_guesses(each));
  }
  FORERUN_RETURN_IF_ERROR(top.status());
  return file;
}

}  // namespace forerun
