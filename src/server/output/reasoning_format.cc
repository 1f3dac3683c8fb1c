#include "server/output/reasoning_format.h"

#include <array>
#include <string>

#include "server/output/named_rows.h"

namespace forerun::server {
namespace {

struct ReasoningRow {
  ReasoningFormat format;
  const char* name;
  ReasoningTags tags;
  bool special;
};

constexpr std::array<ReasoningRow, 4> kReasoningFormats = {{
    {ReasoningFormat::kNone, "none", {}, false},
    {ReasoningFormat::kThink, "think", {"<think>", "</think>"}, false},
    {ReasoningFormat::kThinkBox, "think_box", {"[THINK]", "[/THINK]"}, true},
    {ReasoningFormat::kSeed, "seed", {"<seed:think>", "</seed:think>"}, true},
}};

const ReasoningRow& row_of(ReasoningFormat format) {
  for (const ReasoningRow& row : kReasoningFormats) {
    if (row.format == format) return row;
  }
  return kReasoningFormats[0];
}

}  // namespace

ReasoningTags reasoning_tags(ReasoningFormat format) { return row_of(format).tags; }

const char* reasoning_format_name(ReasoningFormat format) { return row_of(format).name; }

Result<ReasoningFormat> reasoning_format_of_name(std::string_view name) {
  return format_of_name(kReasoningFormats, "reasoning format", name);
}

ReasoningFormat detect_reasoning_format(std::string_view template_text) {
  for (const ReasoningRow& row : kReasoningFormats) {
    // Some templates only remove the reasoning from earlier answers and contain only its closing
    // tag.
    if (row.tags.close.empty()) continue;
    if (template_text.find(row.tags.close) != std::string_view::npos) return row.format;
  }
  return ReasoningFormat::kNone;
}

bool reasoning_format_needs_special_tokens(ReasoningFormat format) {
  return row_of(format).special;
}

bool prompt_opens_reasoning(ReasoningFormat format, std::string_view rendered_prompt) {
  const std::string_view open = reasoning_tags(format).open;
  if (open.empty()) return false;
  const size_t last = rendered_prompt.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return false;
  return rendered_prompt.substr(0, last + 1).ends_with(open);
}

}  // namespace forerun::server
