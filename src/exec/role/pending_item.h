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

// A draft's distribution at one row, for the verification.
struct RowDistribution {
  NodeId node = kNoNode;
  int32_t position = 0;  // position of the row
  std::shared_ptr<const DraftDistribution> distribution;
};

struct PendingItem {
  WorkItem item;
  // For verify_by_rejection: the distribution from which each row's children were drawn, or null;
  // one entry per row.
  std::vector<std::shared_ptr<const DraftDistribution>> drafts;

  int64_t submit_ns = 0;
  // The number of the open() call to which the item belongs. A sequence's id may have been closed
  // and opened again by the time the item's Step has run.
  uint64_t opening = 0;

  // The item's progress.
  bool edits_done = false;
  size_t rows_done = 0;
  WorkResult result;
  std::vector<RowDistribution> distributions;
  // For a sequence with a constraint: the constraint's state at each row, after the output up to
  // it; null if the row belongs to the prompt or no output leads to it.
  std::vector<TokenConstraint::State> constrained;
  // Marks the rows that later edits drop, by index; empty if there are none. They need not run, and
  // their results, at `dead_results` in ascending order, are left out.
  std::vector<bool> dead;
  std::vector<size_t> dead_results;
};

// The items of one sequence: first those with all rows in flight, then those with rows to run,
// usually one. References stay valid until their item is popped.
class ItemQueue {
 public:
  bool empty() const { return items_.empty(); }
  // Returns the item that was submitted first.
  PendingItem& oldest() { return *items_.front(); }
  void pop_oldest() {
    pop(0);
    if (under_way_ > 0) --under_way_;
  }

  bool has_next() const { return under_way_ < items_.size(); }
  PendingItem& next() { return *items_[under_way_]; }
  // Returns the items with rows that are still to run.
  std::span<const std::unique_ptr<PendingItem>> waiting() const {
    return std::span(items_).subspan(under_way_);
  }
  // Records that all rows of the next item are in flight.
  void pass_next() { ++under_way_; }
  // Removes the next item, which must have no rows in flight.
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
  std::unique_ptr<PendingItem> spare_;  // the last popped item, for its memory
  size_t under_way_ = 0;
};

struct FinishedItem {
  uint64_t opening = 0;  // as PendingItem::opening
  // For a result that waits for memory: the number of sequences that the role had closed when the
  // item found no blocks. If it has grown since, the item is tried again at once.
  uint64_t closings = 0;
  WorkResult result;
  std::vector<RowDistribution> distributions;  // distributions of its kDraw rows
};

// Returns the failure of an item for a role without a model.
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
