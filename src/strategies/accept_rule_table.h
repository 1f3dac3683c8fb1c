// The table of rules by which guesses are verified, i.e. the values of `--accept`.
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
  // Whether the output equals plain decoding's token for token: at any temperature, and for greedy
  // decoding.
  bool exact;
  bool exact_where_greedy;
};

// Returns the table; its first entry is "match".
std::span<const AcceptRuleEntry> accept_rule_table();
const AcceptRuleEntry& accept_rule_entry(AcceptRule rule);

// A rule and its parameter.
struct AcceptSpec {
  AcceptRule rule = AcceptRule::kMatch;
  float nucleus = 0.9f;  // kNucleus: the probability of the set, in (0, 1]

  bool operator==(const AcceptSpec&) const = default;
  // Returns the spelling that parse_accept() reads.
  std::string name() const;
};

// Parses "match", "rejection", "relaxed", "nucleus" or "nucleus:0.8"; an empty name is "match".
Result<AcceptSpec> parse_accept(const std::string& name);

}  // namespace forerun
