#include "hosts/stage_message_bytes.h"

#include <string>

namespace forerun {
namespace {

using Range = StageMessage::Range;

constexpr size_t kRangeBytes = 8;
constexpr size_t kRowBytes = 29;
constexpr size_t kSelectionBytes = 36 + 2 * kRangeBytes;

void write_range(const Range& range, ByteWriter& to) {
  to.number(range.first);
  to.number(range.count);
}

Range read_range(const char* name, ByteReader& from) {
  Range range;
  range.first = from.number<int32_t>(name);
  range.count = from.number<int32_t>(name);
  return range;
}

void write_row(const StepRow& row, ByteWriter& to) {
  for (const int32_t field : {row.token, row.position, row.sequence_idx, row.slot, row.visible,
                              row.boundary, row.ancestor_begin}) {
    to.number(field);
  }
  to.flag(row.wants_logits);
}

void read_row(ByteReader& from, StepRow& row) {
  for (int32_t* const field : {&row.token, &row.position, &row.sequence_idx, &row.slot,
                               &row.visible, &row.boundary, &row.ancestor_begin}) {
    *field = from.number<int32_t>("row");
  }
  row.wants_logits = from.flag("row's wish for logits");
}

void write_selection(const StageMessage::Selection& selection, ByteWriter& to) {
  const KvSelection& what = selection.what;
  for (const int32_t field :
       {what.first_row, what.num_rows, what.sequence_idx, what.first_weighed, what.weighed_step,
        what.tokens, what.chosen, what.pooling, what.indexed}) {
    to.number(field);
  }
  write_range(selection.blocks, to);
  write_range(selection.index, to);
}

void read_selection(ByteReader& from, StageMessage::Selection& selection) {
  KvSelection& what = selection.what;
  for (int32_t* const field :
       {&what.first_row, &what.num_rows, &what.sequence_idx, &what.first_weighed,
        &what.weighed_step, &what.tokens, &what.chosen, &what.pooling, &what.indexed}) {
    *field = from.number<int32_t>("selection");
  }
  selection.blocks = read_range("selection", from);
  selection.index = read_range("selection", from);
}

DType read_hidden_dtype(ByteReader& from) {
  const auto value = from.number<uint8_t>("type of hidden rows");
  for (const DType dtype : {DType::kBf16, DType::kF32}) {
    if (value == static_cast<uint8_t>(dtype)) return dtype;
  }
  from.fail("type of hidden rows", "found " + std::to_string(value) + "; accepted: bf16 and f32");
  return DType::kBf16;
}

}  // namespace

void write_stage_message(const StageMessage& message, ByteWriter& to) {
  to.number(message.version);
  to.number(message.step);
  to.list(message.blocks);
  to.count(message.tables.size());
  for (const Range& table : message.tables) write_range(table, to);
  to.count(message.moves_of.size());
  for (const StageMessage::Moves& some : message.moves_of) {
    to.number(some.table);
    write_range(some.moves, to);
  }
  to.count(message.moves.size());
  for (const KvMove& move : message.moves) {
    to.number(move.from_slot);
    to.number(move.to_slot);
  }
  to.count(message.rows.size());
  for (const StepRow& row : message.rows) write_row(row, to);
  to.list(message.numbers);
  to.number(message.issued_rows);
  to.flag(message.whole);
  to.list(message.ancestors);
  to.count(message.selections.size());
  for (const StageMessage::Selection& selection : message.selections) {
    write_selection(selection, to);
  }
  to.number(static_cast<uint8_t>(message.hidden_dtype));
  to.number(message.hidden_width);
  to.list(std::span<const std::byte>(message.hidden));
}

void read_stage_message(ByteReader& from, StageMessage& message) {
  message.clear();
  message.version = from.number<uint32_t>("version of the stage message");
  if (message.version != kStageMessageVersion) {
    from.fail("version of the stage message",
              "found " + std::to_string(message.version) +
                  "; accepted: " + std::to_string(kStageMessageVersion));
    return;
  }
  message.step = from.number<uint64_t>("step");
  from.list("blocks", message.blocks);
  message.tables.resize(from.count("tables", kRangeBytes));
  for (Range& table : message.tables) table = read_range("table", from);
  message.moves_of.resize(from.count("moved sequences", 4 + kRangeBytes));
  for (StageMessage::Moves& some : message.moves_of) {
    some.table = from.number<int32_t>("moved sequence");
    some.moves = read_range("moved sequence", from);
  }
  message.moves.resize(from.count("moves", 8));
  for (KvMove& move : message.moves) {
    move.from_slot = from.number<int32_t>("move");
    move.to_slot = from.number<int32_t>("move");
  }
  message.rows.resize(from.count("rows", kRowBytes));
  for (StepRow& row : message.rows) read_row(from, row);
  from.list("numbers of rows", message.numbers);
  message.issued_rows = from.number<int32_t>("issued rows");
  message.whole = from.flag("whole");
  from.list("ancestors", message.ancestors);
  message.selections.resize(from.count("selections", kSelectionBytes));
  for (StageMessage::Selection& selection : message.selections) read_selection(from, selection);
  message.hidden_dtype = read_hidden_dtype(from);
  message.hidden_width = from.number<int64_t>("width of hidden rows");
  from.list("hidden rows", message.hidden);
}

}  // namespace forerun
