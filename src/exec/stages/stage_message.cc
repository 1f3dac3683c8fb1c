#include "exec/stages/stage_message.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "base/status_macros.h"

namespace forerun {
namespace {

int32_t blocks_for(int32_t slots) { return (slots + kKvBlockTokens - 1) / kKvBlockTokens; }

Status refused(const std::string& what, int64_t found, int64_t first, int64_t last) {
  return Status(StatusCode::kInvalidArgument,
                "stage message: " + what + " " + std::to_string(found) +
                    "; accepted: " + std::to_string(first) + " to " + std::to_string(last));
}

bool lies_within(const StageMessage::Range& range, size_t size) {
  return range.first >= 0 && range.count >= 0 &&
         int64_t{range.first} + range.count <= static_cast<int64_t>(size);
}

Status check_range(const std::string& what, const StageMessage::Range& range, size_t size) {
  if (lies_within(range, size)) return {};
  return refused(what + " of " + std::to_string(range.count) + " from", range.first, 0,
                 static_cast<int64_t>(size) - std::max(range.count, 0));
}

// Checks a row, including the number of slots in its block table.
Status check_row(const StageMessage& message, size_t row_idx) {
  const StepRow& row = message.rows[row_idx];
  const auto name = [row_idx](const char* what) {
    return "row " + std::to_string(row_idx) + ", " + what;
  };
  const auto num_tables = static_cast<int64_t>(message.tables.size());
  if (row.sequence_idx < 0 || row.sequence_idx >= num_tables) {
    return refused(name("table"), row.sequence_idx, 0, num_tables - 1);
  }
  const int64_t slots =
      int64_t{message.tables[static_cast<size_t>(row.sequence_idx)].count} * kKvBlockTokens;
  const auto check_slot = [&](const char* what, int64_t slot) {
    return slot >= 0 && slot < slots ? Status() : refused(name(what), slot, 0, slots - 1);
  };
  if (row.boundary < 0 || row.boundary > row.visible || row.boundary > slots) {
    return refused(name("boundary"), row.boundary, 0, std::min<int64_t>(row.visible, slots));
  }
  if (row.slot != kNoSlot) FORERUN_RETURN_IF_ERROR(check_slot("slot", row.slot));
  const StageMessage::Range list{row.ancestor_begin, row.visible - row.boundary};
  if (list.count == 0) return {};
  FORERUN_RETURN_IF_ERROR(check_range(name("ancestors"), list, message.ancestors.size()));
  for (int32_t at = 0; at < list.count; ++at) {
    FORERUN_RETURN_IF_ERROR(
        check_slot("ancestor", message.ancestors[static_cast<size_t>(list.first + at)]));
  }
  return {};
}

Status check_moves(const StageMessage& message, const StageMessage::Moves& some) {
  const auto num_tables = static_cast<int64_t>(message.tables.size());
  if (some.table < 0 || some.table >= num_tables) {
    return refused("table of moves", some.table, 0, num_tables - 1);
  }
  FORERUN_RETURN_IF_ERROR(check_range("moves", some.moves, message.moves.size()));
  const int64_t slots =
      int64_t{message.tables[static_cast<size_t>(some.table)].count} * kKvBlockTokens;
  for (int32_t at = 0; at < some.moves.count; ++at) {
    const KvMove& move = message.moves[static_cast<size_t>(some.moves.first + at)];
    for (const int32_t slot : {move.from_slot, move.to_slot}) {
      if (slot < 0 || slot >= slots) return refused("slot of a move", slot, 0, slots - 1);
    }
  }
  return {};
}

Status check_selection(const StageMessage& message, const StageMessage::Selection& selection) {
  const KvSelection& what = selection.what;
  const auto num_tables = static_cast<int64_t>(message.tables.size());
  if (what.sequence_idx < 0 || what.sequence_idx >= num_tables) {
    return refused("table to choose from", what.sequence_idx, 0, num_tables - 1);
  }
  const int64_t slots =
      int64_t{message.tables[static_cast<size_t>(what.sequence_idx)].count} * kKvBlockTokens;
  const int64_t weighed =
      what.first_weighed + int64_t{what.weighed_step} * std::max(what.num_rows - 1, 0);
  for (const int64_t tokens : {int64_t{what.tokens}, weighed}) {
    if (tokens < 0 || tokens > slots) return refused("tokens to choose from", tokens, 0, slots);
  }
  FORERUN_RETURN_IF_ERROR(check_range("blocks", selection.blocks, message.blocks.size()));
  FORERUN_RETURN_IF_ERROR(check_range("index", selection.index, message.blocks.size()));
  if (what.chosen < 0 || what.chosen > int64_t{selection.blocks.count} * kKvBlockTokens) {
    return refused("chosen tokens", what.chosen, 0,
                   int64_t{selection.blocks.count} * kKvBlockTokens);
  }
  return {};
}

Status check_taps(const StageMessage& message) {
  int64_t first = 0;  // the first row that may come next
  const auto num_rows = static_cast<int64_t>(message.rows.size());
  for (const StepTap& tap : message.taps) {
    if (tap.row < first || tap.row >= num_rows) {
      return refused("tapped row", tap.row, first, num_rows - 1);
    }
    first = int64_t{tap.row} + 1;
  }
  const size_t odd_bytes = message.taps.empty() ? message.kept_taps.size()
                                                : message.kept_taps.size() % message.taps.size();
  if (odd_bytes == 0) return {};
  return refused("bytes of taps beyond those of whole rows", static_cast<int64_t>(odd_bytes), 0, 0);
}

// Moves the element of `size` bytes at `from` to index `to` of its list.
void slide(std::vector<std::byte>& bytes, size_t from, size_t to, size_t size) {
  if (from == to) return;
  std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(from * size), size,
              bytes.begin() + static_cast<ptrdiff_t>(to * size));
}

}  // namespace

void StageMessage::clear() {
  version = kStageMessageVersion;
  step = 0;
  blocks.clear();
  tables.clear();
  moves_of.clear();
  moves.clear();
  rows.clear();
  numbers.clear();
  issued_rows = 0;
  whole = false;
  ancestors.clear();
  selections.clear();
  hidden_dtype = DType::kBf16;
  hidden_width = 0;
  hidden.clear();
  taps.clear();
  kept_taps.clear();
}

void StageMessage::add_moves(const StepSequence& sequence, std::span<const KvMove> moves_to_add) {
  if (moves_to_add.empty()) return;
  const int32_t count = blocks_for(moves_to_add.back().from_slot + 1);  // both lists ascend
  moves_of.push_back(
      {.table = static_cast<int32_t>(tables.size()),
       .moves = {static_cast<int32_t>(moves.size()), static_cast<int32_t>(moves_to_add.size())}});
  tables.push_back({static_cast<int32_t>(blocks.size()), count});
  blocks.insert(blocks.end(), sequence.block_table, sequence.block_table + count);
  moves.insert(moves.end(), moves_to_add.begin(), moves_to_add.end());
}

void StageMessage::add_rows(const Step& from) {
  const auto first_table = static_cast<int32_t>(tables.size());
  // The number of slots of each table that rows attend to.
  std::vector<int32_t> slots(from.sequences.size(), 0);
  const auto looks_at = [&slots](int32_t sequence_idx, int32_t slot) {
    int32_t& most = slots[static_cast<size_t>(sequence_idx)];
    most = std::max(most, slot + 1);
  };
  for (const StepRow& row : from.rows) {
    looks_at(row.sequence_idx, row.slot);
    looks_at(row.sequence_idx, row.boundary - 1);
    for (int32_t at = 0; at < row.visible - row.boundary; ++at) {
      looks_at(row.sequence_idx, from.ancestors[static_cast<size_t>(row.ancestor_begin + at)]);
    }
  }
  for (const KvSelection& selection : from.selections) {
    looks_at(selection.sequence_idx, selection.tokens - 1);
    looks_at(selection.sequence_idx,
             selection.first_weighed + selection.weighed_step * (selection.num_rows - 1) - 1);
  }
  const auto append = [this](const int32_t* some, int32_t count) {
    const Range range{static_cast<int32_t>(blocks.size()), count};
    blocks.insert(blocks.end(), some, some + count);
    return range;
  };
  for (size_t idx = 0; idx < from.sequences.size(); ++idx) {
    tables.push_back(append(from.sequences[idx].block_table, blocks_for(slots[idx])));
  }
  rows = from.rows;
  for (StepRow& row : rows) row.sequence_idx += first_table;
  numbers.resize(rows.size());
  issued_rows = static_cast<int32_t>(rows.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  ancestors = from.ancestors;
  taps = from.taps;
  for (const KvSelection& selection : from.selections) {
    Selection& to = selections.emplace_back();
    to.what = selection;
    to.what.sequence_idx += first_table;
    to.what.blocks = to.what.index_blocks = nullptr;
    to.blocks = append(selection.blocks, selection.chosen / kKvBlockTokens);
    if (selection.index_blocks != nullptr) {
      to.index = append(selection.index_blocks, selection.num_index_blocks);
    }
  }
}

void StageMessage::add_kept_taps(std::span<const std::byte> stage_rows) {
  if (kept_taps.empty() || stage_rows.empty()) {
    kept_taps.insert(kept_taps.end(), stage_rows.begin(), stage_rows.end());
    return;
  }
  const size_t before = kept_taps.size() / taps.size();
  const size_t added = stage_rows.size() / taps.size();
  std::vector<std::byte> joined;
  joined.reserve(kept_taps.size() + stage_rows.size());
  for (size_t tap = 0; tap < taps.size(); ++tap) {
    const auto earlier = std::span<const std::byte>(kept_taps).subspan(tap * before, before);
    const auto own = stage_rows.subspan(tap * added, added);
    joined.insert(joined.end(), earlier.begin(), earlier.end());
    joined.insert(joined.end(), own.begin(), own.end());
  }
  kept_taps = std::move(joined);
}

void StageMessage::drop_rows(std::span<const int32_t> dropped) {
  if (dropped.empty() || whole || !selections.empty()) return;
  const size_t row_bytes = rows.empty() ? 0 : hidden.size() / rows.size();
  const size_t tap_bytes = taps.empty() ? 0 : kept_taps.size() / taps.size();
  size_t kept = 0;
  size_t taps_kept = 0;
  size_t tap = 0;  // the first tap at or behind the row
  for (size_t row = 0; row < rows.size(); ++row) {
    const bool is_tapped = tap < taps.size() && taps[tap].row == static_cast<int32_t>(row);
    const size_t tap_of_row = tap;
    if (is_tapped) ++tap;
    if (std::find(dropped.begin(), dropped.end(), numbers[row]) != dropped.end()) continue;
    if (is_tapped) {
      taps[taps_kept] = {.row = static_cast<int32_t>(kept), .place = taps[tap_of_row].place};
      slide(kept_taps, tap_of_row, taps_kept++, tap_bytes);
    }
    rows[kept] = rows[row];
    numbers[kept] = numbers[row];
    slide(hidden, row, kept++, row_bytes);
  }
  rows.resize(kept);
  numbers.resize(kept);
  hidden.resize(kept * row_bytes);
  taps.resize(taps_kept);
  kept_taps.resize(taps_kept * tap_bytes);
}

void StageMessage::view(Step& to) const {
  to.clear();
  for (const Range& table : tables) to.sequences.push_back({blocks.data() + table.first});
  to.rows = rows;
  to.ancestors = ancestors;
  to.taps = taps;
  for (const Selection& from : selections) {
    KvSelection& selection = to.selections.emplace_back(from.what);
    selection.blocks = blocks.data() + from.blocks.first;
    selection.num_index_blocks = from.index.count;
    selection.index_blocks = from.index.count > 0 ? blocks.data() + from.index.first : nullptr;
  }
  to.hidden = {.dtype = hidden_dtype, .width = hidden_width, .bytes = hidden};
}

Status check_stage_message(const StageMessage& message, int64_t kv_blocks) {
  if (message.version != kStageMessageVersion) {
    return refused("version", message.version, kStageMessageVersion, kStageMessageVersion);
  }
  for (const int32_t block : message.blocks) {
    if (block < 0 || block >= kv_blocks) return refused("KV block", block, 0, kv_blocks - 1);
  }
  for (const StageMessage::Range& table : message.tables) {
    FORERUN_RETURN_IF_ERROR(check_range("block table", table, message.blocks.size()));
  }
  for (const StageMessage::Moves& some : message.moves_of) {
    FORERUN_RETURN_IF_ERROR(check_moves(message, some));
  }
  if (message.numbers.size() != message.rows.size()) {
    return refused("numbers of rows", static_cast<int64_t>(message.numbers.size()),
                   static_cast<int64_t>(message.rows.size()),
                   static_cast<int64_t>(message.rows.size()));
  }
  for (size_t row_idx = 0; row_idx < message.rows.size(); ++row_idx) {
    const int32_t after = row_idx == 0 ? -1 : message.numbers[row_idx - 1];
    if (message.numbers[row_idx] <= after) {
      return refused("number of row " + std::to_string(row_idx), message.numbers[row_idx],
                     int64_t{after} + 1, std::numeric_limits<int32_t>::max());
    }
    FORERUN_RETURN_IF_ERROR(check_row(message, row_idx));
  }
  const int64_t least = message.numbers.empty() ? 0 : int64_t{message.numbers.back()} + 1;
  if (message.issued_rows < least) {
    return refused("issued rows", message.issued_rows, least, std::numeric_limits<int32_t>::max());
  }
  for (const StageMessage::Selection& selection : message.selections) {
    FORERUN_RETURN_IF_ERROR(check_selection(message, selection));
  }
  return check_taps(message);
}

}  // namespace forerun
