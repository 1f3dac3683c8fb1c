#include "strategies/tree_shape.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/status_macros.h"

namespace forerun {
namespace {

constexpr TreeShapeEntry kTreeShapes[] = {
    {TreeShape::Kind::kAdaptive, "adaptive", "sized by what Steps cost and how often guesses hold"},
    {TreeShape::Kind::kBest, "best", "best first: bs rows verified, d draft steps of w leaves"},
    {TreeShape::Kind::kChain, "chain", "d guesses in a row"},
    {TreeShape::Kind::kLevels, "levels", "pipelined: bs guesses a level, a level a step"},
    {TreeShape::Kind::kStatic, "1,1,3,1,1", "children of every node, level by level"},
};

Status refused_shape(const std::string& message) {
  return Status(StatusCode::kInvalidArgument, message);
}

Result<std::vector<int32_t>> parse_children(const std::string& text) {
  std::string list = text;
  if (list.size() >= 2 && list.front() == '<' && list.back() == '>') {
    list = list.substr(1, list.size() - 2);
  }
  std::vector<int32_t> children;
  int64_t level_nodes = 1;
  int64_t nodes = 1;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    int32_t count = 0;
    const auto parsed = std::from_chars(list.data() + begin, list.data() + end, count);
    if (parsed.ec != std::errc() || parsed.ptr != list.data() + end || count < 1 ||
        count > kMaxTreeChildren) {
      return refused_shape("shape: found '" + text + "'; accepted: " + tree_shape_names() +
                           " (each 1 to " + std::to_string(kMaxTreeChildren) + ")");
    }
    children.push_back(count);
    level_nodes *= count;
    nodes += level_nodes;
    if (nodes > kMaxTreeRows) {
      return refused_shape("shape: found '" + text + "', which has more than " +
                           std::to_string(kMaxTreeRows) + " nodes; accepted: up to " +
                           std::to_string(kMaxTreeRows) + ", the root included");
    }
    begin = end + 1;
  }
  return children;
}

}  // namespace

std::span<const TreeShapeEntry> tree_shape_table() { return kTreeShapes; }

Result<TreeShape> parse_tree_shape(const std::string& text) {
  for (const TreeShapeEntry& entry : kTreeShapes) {
    if (entry.kind != TreeShape::Kind::kStatic && text == entry.name) {
      return TreeShape{.kind = entry.kind, .name = text, .children = {}};
    }
  }
  FORERUN_ASSIGN_OR_RETURN(std::vector<int32_t> children, parse_children(text));
  return TreeShape{.kind = TreeShape::Kind::kStatic, .name = text, .children = std::move(children)};
}

std::string tree_shape_names() {
  std::string names;
  for (const TreeShapeEntry& entry : kTreeShapes) {
    const bool is_static = entry.kind == TreeShape::Kind::kStatic;
    names += is_static ? std::string("or children per level such as ") + entry.name
                       : std::string(entry.name) + ", ";
  }
  return names;
}

std::vector<std::string> every_tree_shape() {
  std::vector<std::string> all;
  for (const TreeShapeEntry& entry : kTreeShapes) all.push_back(entry.name);
  all.push_back("2,2");
  return all;
}

}  // namespace forerun
