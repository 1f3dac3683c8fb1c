// The places of a model's TapStore with the hidden rows of a sequence's tokens: those of the end of
// its prefix, by position, and those of its tree, by node. A trained head reads them as features.
//
// Only one thread may use an object. It allocates only while a sequence keeps more rows than ever
// before.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "step/types.h"

namespace forerun {

class RowTaps;

// The places of a store, which all sequences of a role share.
class TapPlaces {
 public:
  // The largest number of places that a sequence keeps for its prefix, and the number once places
  // have run out.
  static constexpr int32_t kMaxKept = 2048;
  static constexpr int32_t kMinKept = 64;

  explicit TapPlaces(int64_t places) : places_(places) {}
  TapPlaces(const TapPlaces&) = delete;
  TapPlaces& operator=(const TapPlaces&) = delete;

  // Returns an unused place. If there is none, every sequence frees its prefix's places but for the
  // last kMinKept rows; returns -1 if that does not help.
  int32_t take();
  void give(int32_t place) { free_.push_back(place); }

 private:
  friend class RowTaps;

  bool has_free() const { return !free_.empty() || next_ < places_; }

  const int64_t places_;
  int64_t next_ = 0;           // places from here on are unused
  std::vector<int32_t> free_;  // the last one is taken first, since its memory is in use already
  std::vector<RowTaps*> sequences_;
};

class RowTaps {
 public:
  // If `places` is null, the sequence keeps nothing. It must outlive the object.
  explicit RowTaps(TapPlaces* places);
  ~RowTaps();  // frees all places
  RowTaps(const RowTaps&) = delete;
  RowTaps& operator=(const RowTaps&) = delete;

  bool keeps() const { return places_ != nullptr; }

  // Takes a place for the prefix row at `position`, behind those so far (drops all earlier ones if
  // rows are missing between them), or for a tree row. Returns -1 if there is none: the row is not
  // kept.
  int32_t add_prefix(int32_t position);
  int32_t add_node(NodeId node);

  // Returns -1 if the row is not kept.
  int32_t of_prefix(int32_t position) const;
  int32_t of_node(NodeId node) const;

  // Makes the node's row the prefix row at `position`.
  void commit(NodeId node, int32_t position);
  // Drops all nodes for which `has_kv` returns false.
  template <class HasKv>
  void keep_nodes(const HasKv& has_kv) {
    std::erase_if(nodes_, [&](const Node& row) {
      const bool goes = !has_kv(row.node);
      if (goes) places_->give(row.place);
      return goes;
    });
  }
  // Drop the prefix rows before `position`, or from it on.
  void forget_before(int32_t position);
  void forget_from(int32_t position);

 private:
  friend class TapPlaces;

  struct Node {
    NodeId node = kNoNode;
    int32_t place = 0;
  };

  int32_t end() const { return first_ + static_cast<int32_t>(prefix_.size()); }
  void append(int32_t position, int32_t place);
  void pop_front();

  TapPlaces* const places_;
  int32_t first_ = 0;           // position of prefix_.front()
  std::deque<int32_t> prefix_;  // places of consecutive positions, -1 for none
  std::vector<Node> nodes_;
};

}  // namespace forerun
