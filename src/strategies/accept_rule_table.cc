#include "strategies/accept_rule_table.h"

#include <array>
#include <charconv>

namespace forerun {
namespace {

constexpr std::array<AcceptRuleEntry, 4> kAcceptRules = {{
    {AcceptRule::kMatch, "match", "token for token the same", true, true},
    {AcceptRule::kRejection, "rejection", "the same distribution", false, true},
    {AcceptRule::kRelaxed, "relaxed",
     "pipelined, greedy requests: the guess that the target finds likeliest; another text", false,
     false},
    {AcceptRule::kNucleus, "nucleus",
     "pipelined, greedy requests: the draft's likeliest guess in the target's top 0.9, or "
     "nucleus:P; another text",
     false, false},
}};

}  // namespace

std::span<const AcceptRuleEntry> accept_rule_table() { return kAcceptRules; }

const AcceptRuleEntry& accept_rule_entry(AcceptRule rule) {
  return kAcceptRules[static_cast<size_t>(rule)];
}

std::string AcceptSpec::name() const {
  std::string text = accept_rule_entry(rule).name;
  if (rule != AcceptRule::kNucleus) return text;
  std::array<char, 32> number{};
  const auto end = std::to_chars(number.data(), number.data() + number.size(), nucleus).ptr;
  return text + ":" + std::string(number.data(), end);
}

Result<AcceptSpec> parse_accept(const std::string& name) {
  AcceptSpec spec;
  if (name.empty()) return spec;
  const size_t colon = name.find(':');
  for (const AcceptRuleEntry& entry : kAcceptRules) {
    if (name.substr(0, colon) != entry.name) continue;
    spec.rule = entry.rule;
    if (colon == std::string::npos) return spec;
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + colon + 1, end, spec.nucleus);
    const bool is_share =
        read.ec == std::errc() && read.ptr == end && spec.nucleus > 0.0f && spec.nucleus <= 1.0f;
    if (entry.rule == AcceptRule::kNucleus && is_share) return spec;
  }
  std::string names;
  for (const AcceptRuleEntry& entry : kAcceptRules) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Status(StatusCode::kInvalidArgument, "accept rule: found '" + name +
                                                  "'; accepted: " + names +
                                                  ", nucleus:P with P above 0 and at most 1");
}

}  // namespace forerun
