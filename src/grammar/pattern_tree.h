// The syntax tree of a pattern. Internal to pattern.cc and pattern_parser.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "forerun/status.h"
#include "grammar/code_point_set.h"
#include "grammar/limits.h"

namespace forerun::grammar {

struct PatternNode {
  enum class Kind : uint8_t { kChars, kSequence, kChoice, kRepeat, kBegin, kEnd };
  Kind kind = Kind::kSequence;
  CodePointSet chars;
  uint32_t min = 0, max = 0;    // kRepeat; max may be UINT32_MAX
  std::vector<uint32_t> parts;  // indices into PatternTree::nodes
};

struct PatternTree {
  std::vector<PatternNode> nodes;
  uint32_t root = 0;
};

Result<PatternTree> parse_pattern(std::string_view pattern, const GrammarLimits& limits);

}  // namespace forerun::grammar
