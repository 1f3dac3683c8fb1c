#include "hosts/stage_message_bytes.h"

#include <string>

namespace forerun {

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<StageMessage::Range> auto& range) {
  visit("first", range.first);
  visit("count", range.count);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<StageMessage::Moves> auto& some) {
  visit("table", some.table);
  visit("moves", some.moves);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<KvMove> auto& move) {
  visit("from_slot", move.from_slot);
  visit("to_slot", move.to_slot);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<StepRow> auto& row) {
  visit("token", row.token);
  visit("position", row.position);
  visit("sequence_idx", row.sequence_idx);
  visit("slot", row.slot);
  visit("visible", row.visible);
  visit("boundary", row.boundary);
  visit("ancestor_begin", row.ancestor_begin);
  visit("wants_logits", row.wants_logits);
}

// Visits the fields without the pointers; Selection has ranges of blocks in their place.
template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<KvSelection> auto& selection) {
  visit("first_row", selection.first_row);
  visit("num_rows", selection.num_rows);
  visit("sequence_idx", selection.sequence_idx);
  visit("first_weighed", selection.first_weighed);
  visit("weighed_step", selection.weighed_step);
  visit("tokens", selection.tokens);
  visit("chosen", selection.chosen);
  visit("pooling", selection.pooling);
  visit("indexed", selection.indexed);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<StageMessage::Selection> auto& selection) {
  visit("what", selection.what);
  visit("blocks", selection.blocks);
  visit("index", selection.index);
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<StageMessage> auto& message) {
  visit("version of the stage message", message.version);
  if (message.version != kStageMessageVersion) {
    return visit.fail("version of the stage message",
                      "found " + std::to_string(message.version) +
                          "; accepted: " + std::to_string(kStageMessageVersion));
  }
  visit("step", message.step);
  visit("blocks", message.blocks);
  visit("tables", message.tables);
  visit("moved sequences", message.moves_of);
  visit("moves", message.moves);
  visit("rows", message.rows);
  visit("numbers of rows", message.numbers);
  visit("issued rows", message.issued_rows);
  visit("whole", message.whole);
  visit("ancestors", message.ancestors);
  visit("selections", message.selections);
  visit.choice("type of hidden rows", message.hidden_dtype, DType::kBool);
  if (message.hidden_dtype != DType::kBf16 && message.hidden_dtype != DType::kF32) {
    return visit.fail(
        "type of hidden rows",
        "found " + std::string(dtype_name(message.hidden_dtype)) + "; accepted: bf16 and f32");
  }
  visit("width of hidden rows", message.hidden_width);
  visit("hidden rows", message.hidden);
}

void write_stage_message(const StageMessage& message, WireWriter& to) { visit_fields(to, message); }

void read_stage_message(WireReader& from, StageMessage& message) { visit_fields(from, message); }

}  // namespace forerun
