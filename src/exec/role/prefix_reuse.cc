#include "exec/role/prefix_reuse.h"

#include <algorithm>
#include <cstddef>

namespace forerun {
namespace {

bool is_shareable(const WorkRow& row) { return row.node == kNoNode && row.want == Want::kNothing; }

}  // namespace

bool PrefixReuse::skip_cached(RoleSequence& sequence, PendingItem& item) {
  const std::vector<WorkRow>& rows = item.item.rows;
  // At least one row must run, so that the item has a result.
  const size_t last = rows.size() - 1;
  if (!sequence.kv.can_adopt() || item.rows_done + kKvBlockTokens > last ||
      rows[item.rows_done].position != sequence.kv.end_position()) {
    return false;
  }
  // Proceeds block by block, since a waiting prompt is checked in every Step.
  while (true) {
    const size_t end = item.rows_done + kKvBlockTokens;
    tokens_.clear();
    for (size_t row = item.rows_done; row < end && end <= last && is_shareable(rows[row]); ++row) {
      tokens_.push_back(rows[row].token);
    }
    if (tokens_.size() < kKvBlockTokens) return false;
    if (sequence.kv.adopt(tokens_) == 0) break;
    for (; item.rows_done < end; ++item.rows_done) {
      sequence.count_token(rows[item.rows_done].token, rows[item.rows_done].position);
    }
    item.result.reused_rows += kKvBlockTokens;
  }
  return std::any_of(in_work_.begin(), in_work_.end(), [&](const BlockInWork& block) {
    return block.before == sequence.kv.published_text() &&
           std::equal(tokens_.begin(), tokens_.end(), block.rows,
                      [](TokenId token, const WorkRow& row) { return token == row.token; });
  });
}

PrefixReuse::BlockInWork PrefixReuse::next_block(const RoleSequence& sequence,
                                                 const PendingItem& item) {
  const auto begun = static_cast<size_t>(sequence.kv.prefix_length() % kKvBlockTokens);
  if (!sequence.kv.is_sharing() || begun > item.rows_done ||
      item.rows_done - begun + kKvBlockTokens > item.item.rows.size()) {
    return {};
  }
  const WorkRow* rows = &item.item.rows[item.rows_done - begun];
  if (!std::all_of(rows, rows + kKvBlockTokens, is_shareable)) return {};
  return {sequence.kv.published_text(), rows};
}

}  // namespace forerun
