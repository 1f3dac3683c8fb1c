// Which places of a model's TapStore hold the hidden rows of a sequence's tokens: of the end of its
// prefix, by position, and of its tree, by node. A trained head reads them as features.
//
// Used by one thread. Allocates only while a sequence keeps more rows than ever before.
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
  // The most places that a sequence keeps for its prefix, and how many once places have run out.
  static constexpr int32_t kMaxKept = 2048;
  static constexpr int32_t kMinKept = 64;

  explicit TapPlaces(int64_t places) : places_(places) {}
  TapPlaces(const TapPlaces&) = delete;
  TapPlaces& operator=(const TapPlaces&) = delete;

  // A place that holds no row yet. Where there is none left, every sequence gives up what it keeps
  // of its prefix, but for the last kMinKept rows; -1 where that does not help.
  int32_t take();
  void give(int32_t place) { free_.push_back(place); }

 private:
  friend class RowTaps;

  bool has_free() const { return !free_.empty() || next_ < places_; }

  const int64_t places_;
  int64_t next_ = 0;           // places from here on have never been used
  std::vector<int32_t> free_;  // the one given last is taken first: its memory is in use already
  std::vector<RowTaps*> sequences_;
};

class RowTaps {
 public:
  // `places` null: the sequence keeps nothing. It must outlive the object.
  explicit RowTaps(TapPlaces* places);
  ~RowTaps();  // gives back all places
  RowTaps(const RowTaps&) = delete;
  RowTaps& operator=(const RowTaps&) = delete;

  bool keeps() const { return places_ != nullptr; }

  // Takes a place for the prefix row at `position`, behind those so far (all earlier ones are
  // forgotten where rows are missing between them), or for a tree row. -1 where there is none: the
  // row is not kept.
  int32_t add_prefix(int32_t position);
  int32_t add_node(NodeId node);

  // -1 where the row is not kept.
  int32_t of_prefix(int32_t position) const;
  int32_t of_node(NodeId node) const;

  // The node's row becomes the prefix row at `position`.
  void commit(NodeId node, int32_t position);
  // Forgets all nodes that `has_kv` says no to.
  template <class HasKv>
  void keep_nodes(const HasKv& has_kv) {
    std::erase_if(nodes_, [&](const Node& row) {
      const bool goes = !has_kv(row.node);
      if (goes) places_->give(row.place);
      return goes;
    });
  }
  // Forgets the prefix rows in front of `position`, or from it on.
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
  std::deque<int32_t> prefix_;  // places, -1 for none, of consecutive positions
  std::vector<Node> nodes_;
};

}  // namespace forerun
