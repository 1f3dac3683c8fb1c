// A map from unique ids to values: a flat table of pointers (open addressing). Every Step looks up
// some hundred ids in turn, and a lookup touches only the table and the value. Values keep their
// addresses until they are taken out.
//
// Thread rules: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace forerun {

template <class Value>
class IdMap {
 public:
  struct Entry {
    uint64_t id;
    Value& value;
  };

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Returns null if there is no such id. The pointer is valid until the value is taken out.
  Value* find(uint64_t id) const {
    return cells_.empty() ? nullptr : cells_[cell_of(id)].value.get();
  }
  bool contains(uint64_t id) const { return find(id) != nullptr; }
  // Inserts a value. `id` must be new, `value` not null. If memory runs out (std::bad_alloc),
  // nothing has changed.
  Value& insert(uint64_t id, std::unique_ptr<Value> value) {
    if (2 * (size_ + 1) > cells_.size()) grow();
    Cell& cell = cells_[cell_of(id)];
    cell = {id, std::move(value)};
    ++size_;
    return *cell.value;
  }
  // Removes the value and returns it; null if there is no such id.
  std::unique_ptr<Value> take(uint64_t id) {
    if (cells_.empty()) return nullptr;
    size_t hole = cell_of(id);
    std::unique_ptr<Value> taken = std::move(cells_[hole].value);
    if (taken == nullptr) return taken;
    --size_;
    // Moves back values that earlier entries had pushed past the hole.
    for (size_t cell = next(hole); cells_[cell].value != nullptr; cell = next(cell)) {
      const size_t home = home_of(cells_[cell].id);
      if (((cell - home) & mask()) < ((cell - hole) & mask())) continue;
      cells_[hole] = std::move(cells_[cell]);
      hole = cell;
    }
    return taken;
  }

  // Visits the entries in no particular order. The map must not change meanwhile.
  class Iterator {
   public:
    Entry operator*() const { return {map_->cells_[cell_].id, *map_->cells_[cell_].value}; }
    Iterator& operator++() {
      cell_ = map_->first_from(cell_ + 1);
      return *this;
    }
    bool operator==(const Iterator& other) const { return cell_ == other.cell_; }

   private:
    friend class IdMap;
    Iterator(const IdMap* map, size_t cell) : map_(map), cell_(cell) {}
    const IdMap* map_;
    size_t cell_;
  };
  Iterator begin() const { return {this, first_from(0)}; }
  Iterator end() const { return {this, cells_.size()}; }

 private:
  struct Cell {
    uint64_t id = 0;
    std::unique_ptr<Value> value;  // null: the cell is free
  };
  size_t mask() const { return cells_.size() - 1; }
  size_t next(size_t cell) const { return (cell + 1) & mask(); }
  size_t home_of(uint64_t id) const {
    return static_cast<size_t>(id * 0x9E3779B97F4A7C15u >> 32) & mask();
  }
  // Returns the cell that holds the id, or the free cell where it would be inserted.
  size_t cell_of(uint64_t id) const {
    size_t cell = home_of(id);
    while (cells_[cell].value != nullptr && cells_[cell].id != id) cell = next(cell);
    return cell;
  }
  size_t first_from(size_t cell) const {
    while (cell < cells_.size() && cells_[cell].value == nullptr) ++cell;
    return cell;
  }
  void grow() {
    std::vector<Cell> old(cells_.empty() ? 16 : 2 * cells_.size());
    old.swap(cells_);
    for (Cell& cell : old) {
      if (cell.value != nullptr) cells_[cell_of(cell.id)] = std::move(cell);
    }
  }

  std::vector<Cell> cells_;  // size is a power of two; at most half of the cells are in use
  size_t size_ = 0;
};

}  // namespace forerun
