// The shapes that a draft tree may have, by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun {

struct TreeShape {
  enum class Kind : uint8_t {
    kAdaptive,  // what is drafted and verified follows from measured costs and acceptance
    kBest,      // best first, of configured sizes
    kChain,     // one guess a level
    kStatic,    // so many guesses at every node of a level
    kLevels,    // levels of fixed width, one a step of a pipeline
  };
  Kind kind = Kind::kAdaptive;
  std::string name = "adaptive";  // as options spell it
  std::vector<int32_t> children;  // kStatic: by level, from the root's

  // Whether the tree's size is set beforehand and the whole tree is verified.
  bool is_static() const { return kind == Kind::kChain || kind == Kind::kStatic; }
};

constexpr int32_t kMaxTreeRows = 128;  // rows of a verification, the root included
constexpr int32_t kMaxTreeChildren = 64;

struct TreeShapeEntry {
  TreeShape::Kind kind;
  const char* name;  // kStatic: an example
  const char* help;  // one line
};
// Every kind once.
std::span<const TreeShapeEntry> tree_shape_table();

// kStatic is written "1,1,3" or "<1,1,3>". kInvalidArgument: not a name, a level of no or more than
// kMaxTreeChildren children, more than kMaxTreeRows nodes.
Result<TreeShape> parse_tree_shape(const std::string& text);

// For messages: "adaptive, best, chain, or children per level such as 1,1,3,1,1".
std::string tree_shape_names();

// Shapes that tests run: every kind, and a second static one that is wide at the root.
std::vector<std::string> every_tree_shape();

}  // namespace forerun
