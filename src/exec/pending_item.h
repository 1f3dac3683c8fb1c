// Work items on their way through a role, and what comes of them.
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
  int32_t position = 0;  // of the row
  std::shared_ptr<const DraftDistribution> distribution;
};

struct PendingItem {
  WorkItem item;
  // verify_by_rejection: what each row's children were drawn from, or null; as many as rows.
  std::vector<std::shared_ptr<const DraftDistribution>> drafts;

  int64_t submit_ns = 0;
  // Which of the executor's openings it belongs to: an id may have been closed and opened again
  // by the time its Step has run.
  uint64_t opening = 0;

  // How far it has come.
  bool edits_done = false;
  size_t rows_done = 0;
  WorkResult result;
  std::vector<RowDistribution> distributions;
};

// Items of one sequence that a role has still to run, mostly one: in place, without a list's nodes.
// References hold until the next push_back() or pop_front().
class ItemQueue {
 public:
  bool empty() const { return first_ == items_.size(); }
  size_t size() const { return items_.size() - first_; }
  PendingItem& front() { return items_[first_]; }
  std::span<const PendingItem> all() const { return std::span(items_).subspan(first_); }
  void push_back(PendingItem&& item) { items_.push_back(std::move(item)); }
  void pop_front() {
    if (++first_ < items_.size() && first_ < kMostPopped) return;
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }

 private:
  static constexpr size_t kMostPopped = 8;
  std::vector<PendingItem> items_;
  size_t first_ = 0;  // those before it have been popped
};

struct FinishedItem {
  uint64_t opening = 0;  // PendingItem's
  // Of a result that waits for memory: how many sequences the role had closed when it found no
  // blocks. Where more have been closed since, it tries again by itself.
  uint64_t closings = 0;
  WorkResult result;
  std::vector<RowDistribution> distributions;  // of its kDraw rows
};

// What an item gives whose role has no model.
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
