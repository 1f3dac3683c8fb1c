#include "strategies/option_set.h"

#include "strategies/tree_shape.h"

namespace forerun {
namespace {

using Text = std::string SpeculationOptions::*;
using Number = std::optional<int32_t> SpeculationOptions::*;
using Flag = std::optional<bool> SpeculationOptions::*;

// One of the three members is not null.
struct OptionField {
  SpeculationOption option;
  const char* name;
  Text text = nullptr;
  Number number = nullptr;
  Flag flag = nullptr;
  OptionRange range = {};  // only for a numeric option
};

constexpr int32_t kMaxDepth = 64;
constexpr int32_t kMaxViewTokens = 1 << 24;

// In the order of SpeculationOption.
constexpr OptionField kFields[] = {
    {.option = SpeculationOption::kSource, .name = "source", .text = &SpeculationOptions::source},
    {.option = SpeculationOption::kShape, .name = "shape", .text = &SpeculationOptions::shape},
    {.option = SpeculationOption::kAccept, .name = "accept", .text = &SpeculationOptions::accept},
    {.option = SpeculationOption::kVerifyTokens,
     .name = "verify_tokens",
     .number = &SpeculationOptions::verify_tokens,
     .range = {1, kMaxTreeRows, 8}},
    {.option = SpeculationOption::kDraftWidth,
     .name = "draft_width",
     .number = &SpeculationOptions::draft_width,
     .range = {1, kMaxTreeRows, 4}},
    {.option = SpeculationOption::kDraftDepth,
     .name = "draft_depth",
     .number = &SpeculationOptions::draft_depth,
     .range = {1, kMaxDepth, 4}},
    {.option = SpeculationOption::kSharedNoise,
     .name = "shared_noise",
     .flag = &SpeculationOptions::shared_noise},
    {.option = SpeculationOption::kExtraDraftSteps,
     .name = "extra_draft_steps",
     .number = &SpeculationOptions::extra_draft_steps,
     .range = {0, 1, 0}},
    {.option = SpeculationOption::kChildrenPerLeaf,
     .name = "children_per_leaf",
     .number = &SpeculationOptions::children_per_leaf,
     .range = {0, kMaxTreeChildren, 0}},
    {.option = SpeculationOption::kView, .name = "view", .text = &SpeculationOptions::view},
    {.option = SpeculationOption::kViewBudget,
     .name = "view_budget",
     .number = &SpeculationOptions::view_budget,
     .range = {1, kMaxViewTokens, 512}},
};
static_assert(std::size(kFields) == kNumSpeculationOptions);

const OptionField& field_of(SpeculationOption option) {
  return kFields[static_cast<size_t>(option)];
}

}  // namespace

const char* option_name(SpeculationOption option) { return field_of(option).name; }

std::string option_names(OptionSet options) {
  std::string names;
  for (const OptionField& field : kFields) {
    if (options.has(field.option)) names += (names.empty() ? "" : ", ") + std::string(field.name);
  }
  return names.empty() ? "no options" : names;
}

std::optional<std::string> option_value(const SpeculationOptions& options,
                                        SpeculationOption option) {
  const OptionField& field = field_of(option);
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
  const OptionField& field = field_of(option);
  if (field.text != nullptr) (options.*field.text).clear();
  if (field.flag != nullptr) (options.*field.flag).reset();
  if (field.number != nullptr) (options.*field.number).reset();
}

OptionRange range_of(SpeculationOption option) { return field_of(option).range; }

Status check_ranges(const SpeculationOptions& options) {
  for (const OptionField& field : kFields) {
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
  const OptionField& field = field_of(option);
  return (options.*field.number).value_or(field.range.fallback);
}

}  // namespace forerun
