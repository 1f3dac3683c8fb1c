#include "exec/role/item_finisher.h"

#include <cstddef>
#include <utility>

namespace forerun {

void ItemFinisher::finish(RoleSequence& sequence, PendingItem& item,
                          std::vector<FinishedItem>& finished) {
  if (!sequence.failed.ok()) {
    item.result.status = sequence.failed;
    item.result.rows.clear();
    item.result.accepted.clear();
    item.result.walked.clear();
    item.result.scores.clear();
    item.result.bonus = -1;
    item.distributions.clear();
  }
  if (!item.result.rows.empty()) sequences_->set_decodes(sequence);
  if (!item.dead_results.empty() && sequence.failed.ok()) {
    std::vector<RowResult>& rows = item.result.rows;
    for (size_t idx = item.dead_results.size(); idx-- > 0;) {
      rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(item.dead_results[idx]));
    }
    item.result.left_out = rows.empty();
  }
  if (item.item.rows.empty()) return;
  finished.push_back({item.opening, 0, std::move(item.result), std::move(item.distributions)});
}

void ItemFinisher::finish_next(RoleSequence& sequence, std::vector<FinishedItem>& finished) {
  finish(sequence, sequence.queue.next(), finished);
  sequence.queue.pop_next();
}

void ItemFinisher::fail_next(RoleSequence& sequence, const Status& status,
                             std::vector<FinishedItem>& finished) {
  if (sequence.failed.ok()) sequence.failed = in_context(status, sequence);
  if (sequence.steps_under_way == 0) finish_next(sequence, finished);
}

void ItemFinisher::fail_all(RoleSequence& sequence, std::vector<FinishedItem>& finished) {
  while (sequence.queue.has_next()) finish_next(sequence, finished);
}

FinishedItem ItemFinisher::notice(const RoleSequence& sequence, const PendingItem& item) const {
  FinishedItem notice;
  notice.opening = item.opening;
  notice.result.sequence = sequence.id;
  notice.result.role = role_;
  notice.result.tag = item.item.tag;
  return notice;
}

}  // namespace forerun
