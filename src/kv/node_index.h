// A map from tree nodes to indices by open addressing. It allocates only while it grows to the
// tree's size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "step/types.h"

namespace forerun {

class NodeIndex {
 public:
  // Returns the index, or -1 if the node is unknown.
  int32_t find(NodeId node) const { return size_ == 0 ? -1 : cells_[cell_of(node)].index; }
  // `node` must not be present.
  void insert(NodeId node, int32_t index) {
    if (2 * (size_ + 1) > cells_.size()) grow();
    cells_[cell_of(node)] = {node, index};
    ++size_;
  }
  void clear() {
    if (size_ > 0) std::fill(cells_.begin(), cells_.end(), Cell{});
    size_ = 0;
  }

 private:
  struct Cell {
    NodeId node = kNoNode;
    int32_t index = -1;
  };
  size_t cell_of(NodeId node) const {
    const size_t mask = cells_.size() - 1;
    size_t cell = (node * 0x9E3779B1u >> 7) & mask;
    while (cells_[cell].index >= 0 && cells_[cell].node != node) cell = (cell + 1) & mask;
    return cell;
  }
  void grow() {
    std::vector<Cell> old(cells_.empty() ? 64 : cells_.size() * 2);
    old.swap(cells_);
    for (const Cell& cell : old) {
      if (cell.index >= 0) cells_[cell_of(cell.node)] = cell;
    }
  }

  std::vector<Cell> cells_;
  size_t size_ = 0;
};

}  // namespace forerun
