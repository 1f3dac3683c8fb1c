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
    kAdaptive,  // size and shape follow from measured costs and acceptance
    kBest,      // best first, of configured sizes
    kChain,     // one guess per level
    kStatic,    // a fixed number of guesses at every node of a level
    kLevels,    // levels of fixed width, one per step of a pipeline
  };
  Kind kind = Kind::kAdaptive;
  std::string name = "adaptive";  // as options spell it
  std::vector<int32_t> children;  // kStatic: one entry per level, from the root's

  // Returns whether the tree's size is fixed and the whole tree is verified.
  bool is_static() const { return kind == Kind::kChain || kind == Kind::kStatic; }
};

constexpr int32_t kMaxTreeRows = 128;  // maximum rows of a verification, the root included
constexpr int32_t kMaxTreeChildren = 64;

struct TreeShapeEntry {
  TreeShape::Kind kind;
  const char* name;  // for kStatic an example
  const char* help;  // one line
};
// Returns the table, which has every kind once.
std::span<const TreeShapeEntry> tree_shape_table();

// Parses a name, or for kStatic a list such as "1,1,3" or "<1,1,3>". Fails with kInvalidArgument
// for an unknown name, a level of no or more than kMaxTreeChildren children, or more than
// kMaxTreeRows nodes.
Result<TreeShape> parse_tree_shape(const std::string& text);

// Returns a list for messages: "adaptive, best, chain, or children per level such as 1,1,3,1,1".
std::string tree_shape_names();

// Returns the shapes that tests run: every kind, and a second static one that is wide at the root.
std::vector<std::string> every_tree_shape();

}  // namespace forerun
