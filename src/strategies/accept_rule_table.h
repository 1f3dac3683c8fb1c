// The rules by which guesses are verified, by name: what `--accept` takes.
#pragma once

#include <span>
#include <string>

#include "forerun/status.h"
#include "step/work.h"

namespace forerun {

struct AcceptRuleEntry {
  AcceptRule rule;
  const char* name;
  const char* help;
  // Whether the output is plain decoding's, token for token: at any temperature, and where decoding
  // is greedy.
  bool exact;
  bool exact_where_greedy;
};

// "match" first.
std::span<const AcceptRuleEntry> accept_rule_table();
const AcceptRuleEntry& accept_rule_entry(AcceptRule rule);

// A rule with its number.
struct AcceptSpec {
  AcceptRule rule = AcceptRule::kMatch;
  float nucleus = 0.9f;  // kNucleus: the probability of the set, (0, 1]

  bool operator==(const AcceptSpec&) const = default;
  // The spelling that parse_accept() reads.
  std::string name() const;
};

// "match", "rejection", "relaxed", "nucleus", "nucleus:0.8"; empty: "match".
Result<AcceptSpec> parse_accept(const std::string& name);

}  // namespace forerun
