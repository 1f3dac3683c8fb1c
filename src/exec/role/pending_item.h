// Work items on their way through a role, and their results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forerun/status.h"
#include "sampling/sampler.h"
#include "step/work.h"

namespace forerun {

// A draft's distribution at one row, on its way to the verification.
struct RowDistribution {
  NodeId node = kNoNode;
  int32_t position = 0;  // position of the row
  std::shared_ptr<const DraftDistribution> distribution;
};

struct PendingItem {
  WorkItem item;
  // verify_by_rejection: what each row's children were drawn from, or null; as many as rows.
  std::vector<std::shared_ptr<const DraftDistribution>> drafts;

  int64_t submit_ns = 0;
  // The number of the open() call that the item belongs to: a sequence's id may have been closed
  // and opened again by the time the item's Step has run.
  uint64_t opening = 0;

  // How far it has come.
  bool edits_done = false;
  size_t rows_done = 0;
  WorkResult result;
  std::vector<RowDistribution> distributions;
  // Where the sequence has a constraint: for each row, the constraint's state after the text up to
  // it; null where the row belongs to the prompt or no output leads to it.
  std::vector<TokenConstraint::State> constrained;
  // Marks the rows that later edits drop, by index; empty: none. They need not be run, and their
  // results, at `dead_results` in ascending order, are left out.
  std::vector<bool> dead;
  std::vector<size_t> dead_results;
};

// Items of one sequence: first those whose rows are all under way, then those that still have rows
// to run, usually one. References stay valid until their item is popped.
class ItemQueue {
 public:
  bool empty() const { return items_.empty(); }
  // The item that was submitted first.
  PendingItem& oldest() { return *items_.front(); }
  void pop_oldest() {
    pop(0);
    if (under_way_ > 0) --under_way_;
  }

  bool has_next() const { return under_way_ < items_.size(); }
  PendingItem& next() { return *items_[under_way_]; }
  // Items with rows that are still to be run.
  std::span<const std::unique_ptr<PendingItem>> waiting() const {
    return std::span(items_).subspan(under_way_);
  }
  // All rows of the next item are under way.
  void pass_next() { ++under_way_; }
  // Removes the next item, none of whose rows are under way.
  void pop_next() { pop(under_way_); }
  void push_back(PendingItem&& item) {
    if (spare_ == nullptr) {
      items_.push_back(std::make_unique<PendingItem>(std::move(item)));
    } else {
      *spare_ = std::move(item);
      items_.push_back(std::move(spare_));
    }
  }

 private:
  void pop(size_t place) {
    spare_ = std::move(items_[place]);
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(place));
  }

  std::vector<std::unique_ptr<PendingItem>> items_;
  std::unique_ptr<PendingItem> spare_;  // the one popped last, for its memory
  size_t under_way_ = 0;
};

struct FinishedItem {
  uint64_t opening = 0;  // as PendingItem::opening
  // Where the result waits for memory: how many sequences the role had closed when the item found
  // no blocks. Where more have been closed since, the item is tried again at once.
  uint64_t closings = 0;
  WorkResult result;
  std::vector<RowDistribution> distributions;  // distributions of its kDraw rows
};

// The failure of an item whose role has no model.
inline FinishedItem without_model(const WorkItem& item, uint64_t opening) {
  FinishedItem failed;
  failed.opening = opening;
  failed.result.sequence = item.sequence;
  failed.result.role = item.role;
  failed.result.tag = item.tag;
  failed.result.status =
      Status(StatusCode::kInternal,
             std::string("work for the ") + role_name(item.role) + ", which has no model");
  return failed;
}

}  // namespace forerun
