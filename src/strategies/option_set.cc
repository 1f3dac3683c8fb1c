#include "strategies/option_set.h"

#include <string_view>

#include "forerun/speculation_fields.h"
#include "strategies/tree_shape.h"

namespace forerun {
namespace {

// SpeculationOption has the rows of kSpeculationFields except the first, the strategy's name.
static_assert(kSpeculationFields.size() == kNumSpeculationOptions + 1);
constexpr bool is_row_of(SpeculationOption option, std::string_view name) {
  return kSpeculationFields[1 + static_cast<size_t>(option)].name == name;
}
static_assert(is_row_of(SpeculationOption::kSource, "source"));
static_assert(is_row_of(SpeculationOption::kShape, "shape"));
static_assert(is_row_of(SpeculationOption::kAccept, "accept"));
static_assert(is_row_of(SpeculationOption::kVerifyTokens, "verify_tokens"));
static_assert(is_row_of(SpeculationOption::kDraftWidth, "draft_width"));
static_assert(is_row_of(SpeculationOption::kDraftDepth, "draft_depth"));
static_assert(is_row_of(SpeculationOption::kSharedNoise, "shared_noise"));
static_assert(is_row_of(SpeculationOption::kExtraDraftSteps, "extra_draft_steps"));
static_assert(is_row_of(SpeculationOption::kChildrenPerLeaf, "children_per_leaf"));
static_assert(is_row_of(SpeculationOption::kView, "view"));
static_assert(is_row_of(SpeculationOption::kViewBudget, "view_budget"));

constexpr bool is_number_within(const char* name, int32_t most) {
  for (const SpeculationField& field : kSpeculationFields) {
    if (field.name == std::string_view(name)) return field.range.high == most;
  }
  return false;
}
static_assert(is_number_within("verify_tokens", kMaxTreeRows));
static_assert(is_number_within("draft_width", kMaxTreeRows));
static_assert(is_number_within("children_per_leaf", kMaxTreeChildren));

const SpeculationField& field_of(SpeculationOption option) {
  return kSpeculationFields[1 + static_cast<size_t>(option)];
}

}  // namespace

const char* option_name(SpeculationOption option) { return field_of(option).name; }

std::string option_names(OptionSet options) {
  std::string names;
  for (int32_t idx = 0; idx < kNumSpeculationOptions; ++idx) {
    const auto option = static_cast<SpeculationOption>(idx);
    if (options.has(option))
      names += (names.empty() ? "" : ", ") + std::string(option_name(option));
  }
  return names.empty() ? "no options" : names;
}

std::optional<std::string> option_value(const SpeculationOptions& options,
                                        SpeculationOption option) {
  const SpeculationField& field = field_of(option);
  if (field.text != nullptr) {
    const std::string& text = options.*field.text;
    return text.empty() ? std::nullopt : std::optional("'" + text + "'");
  }
  if (field.flag != nullptr) {
    const std::optional<bool> flag = options.*field.flag;
    return flag ? std::optional<std::string>(*flag ? "true" : "false") : std::nullopt;
  }
  const std::optional<int32_t> number = options.*field.number;
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

void clear_option(SpeculationOptions& options, SpeculationOption option) {
  const SpeculationField& field = field_of(option);
  if (field.text != nullptr) (options.*field.text).clear();
  if (field.flag != nullptr) (options.*field.flag).reset();
  if (field.number != nullptr) (options.*field.number).reset();
}

OptionRange range_of(SpeculationOption option) { return field_of(option).range; }

Status check_ranges(const SpeculationOptions& options) {
  for (const SpeculationField& field : kSpeculationFields) {
    if (field.number == nullptr) continue;
    const std::optional<int32_t> number = options.*field.number;
    const auto [low, high, fallback] = field.range;
    if (!number || (*number >= low && *number <= high)) continue;
    return Status(StatusCode::kInvalidArgument,
                  std::string(field.name) + ": found " + std::to_string(*number) +
                      "; accepted: " + std::to_string(low) + " to " + std::to_string(high));
  }
  return Status();
}

int32_t number_of(const SpeculationOptions& options, SpeculationOption option) {
  const SpeculationField& field = field_of(option);
  return (options.*field.number).value_or(field.range.fallback);
}

}  // namespace forerun
