#include "model/step_check.h"

#include <string>

#include "base/status_macros.h"
#include "kernels/pq_index/pq_index.h"

namespace forerun {
namespace {

Status out_of_range(size_t row_idx, const char* what, int64_t found, int64_t first, int64_t last) {
  return Status(StatusCode::kInvalidArgument,
                "step row " + std::to_string(row_idx) + ": " + what + " " + std::to_string(found) +
                    "; accepted: " + std::to_string(first) + " to " + std::to_string(last));
}

// Checks `count` blocks that a row's selection names.
Status check_blocks(size_t row_idx, const int32_t* blocks, int32_t count, int64_t kv_blocks) {
  for (int32_t idx = 0; idx < count; ++idx) {
    if (blocks[idx] < 0 || blocks[idx] >= kv_blocks) {
      return out_of_range(row_idx, "KV block", blocks[idx], 0, kv_blocks - 1);
    }
  }
  return {};
}

// Checks the rows that choose, from `first` to `end`.
Status check_observers(const Step& step, const KvSelection& selection, size_t first, size_t end) {
  int64_t weighed = selection.first_weighed;
  for (size_t row_idx = first; row_idx < end; ++row_idx) {
    const StepRow& row = step.rows[row_idx];
    // Only rows that want logits have queries in the last layer.
    if (row.sequence_idx != step.rows[first].sequence_idx || !row.wants_logits) {
      return Status(StatusCode::kInvalidArgument,
                    "step row " + std::to_string(row_idx) + ": found an observer " +
                        (row.wants_logits ? "of another sequence" : "that wants no logits") +
                        "; accepted: rows of one sequence that want logits");
    }
    if (weighed < 1 || weighed > row.position + 1) {
      return out_of_range(row_idx, "tokens that an observer weighs", weighed, 1, row.position + 1);
    }
    weighed += selection.weighed_step;
  }
  return {};
}

Status check_index(const KvSelection& selection, size_t first, int32_t head_dim,
                   int64_t kv_blocks) {
  if (selection.tokens % kKvBlockTokens != 0 || selection.indexed < 0 ||
      selection.indexed > selection.tokens) {
    return out_of_range(first, "indexed tokens", selection.indexed, 0,
                        selection.tokens / kKvBlockTokens * kKvBlockTokens);
  }
  const int32_t needed = pq_index_blocks(selection.tokens, head_dim);
  if (selection.num_index_blocks < needed) {
    return Status(StatusCode::kInvalidArgument,
                  "row " + std::to_string(first) + ": an index of " +
                      std::to_string(selection.tokens) + " tokens in " +
                      std::to_string(selection.num_index_blocks) + " blocks; accepted: at least " +
                      std::to_string(needed));
  }
  return check_blocks(first, selection.index_blocks, selection.num_index_blocks, kv_blocks);
}

Status check_selection(const Step& step, const KvSelection& selection, int32_t head_dim,
                       int64_t kv_blocks) {
  const int64_t end = int64_t{selection.first_row} + selection.num_rows;
  if (selection.first_row < 0 || selection.num_rows < 1 ||
      end > static_cast<int64_t>(step.rows.size())) {
    return Status(StatusCode::kInvalidArgument,
                  "KV selection: found observers " + std::to_string(selection.first_row) + " to " +
                      std::to_string(end - 1) + " of " + std::to_string(step.rows.size()) +
                      " rows; accepted: at least one row, within the Step's");
  }
  const auto first = static_cast<size_t>(selection.first_row);
  if (selection.sequence_idx < 0 ||
      selection.sequence_idx >= static_cast<int32_t>(step.sequences.size())) {
    return out_of_range(first, "sequence to choose from", selection.sequence_idx, 0,
                        static_cast<int64_t>(step.sequences.size()) - 1);
  }
  if (selection.weighed_step < 0 || selection.weighed_step > 1) {
    return out_of_range(first, "further tokens weighed", selection.weighed_step, 0, 1);
  }
  FORERUN_RETURN_IF_ERROR(check_observers(step, selection, first, static_cast<size_t>(end)));
  if (selection.tokens > selection.first_weighed) {
    return out_of_range(first, "tokens to choose from", selection.tokens, 1,
                        selection.first_weighed);
  }
  if (selection.chosen < kKvBlockTokens || selection.chosen % kKvBlockTokens != 0 ||
      selection.chosen > selection.tokens) {
    return out_of_range(first, "chosen tokens", selection.chosen, kKvBlockTokens, selection.tokens);
  }
  if (selection.index_blocks != nullptr) {
    FORERUN_RETURN_IF_ERROR(check_index(selection, first, head_dim, kv_blocks));
  }
  return check_blocks(first, selection.blocks, selection.chosen / kKvBlockTokens, kv_blocks);
}

}  // namespace

namespace {

Status check_hidden(const Step& step, const ModelConfig& config, DType dtype) {
  const HiddenRows& hidden = step.hidden;
  const size_t expected = step.rows.size() * static_cast<size_t>(config.hidden_size) *
                          static_cast<size_t>(dtype_bytes(dtype));
  if (hidden.dtype == dtype && hidden.width == config.hidden_size &&
      hidden.bytes.size() == expected) {
    return {};
  }
  return Status(StatusCode::kInvalidArgument,
                "hidden rows: " + std::to_string(hidden.bytes.size()) + " bytes of " +
                    std::string(dtype_name(hidden.dtype)) + ", " + std::to_string(hidden.width) +
                    " values a row; " + std::to_string(step.rows.size()) +
                    " rows of this stage are " + std::to_string(expected) + " bytes of " +
                    std::string(dtype_name(dtype)) + ", " + std::to_string(config.hidden_size) +
                    " values a row");
}

Status check_taps_of(const Step& step, int64_t tap_places) {
  if (!step.taps.empty() && tap_places == 0) {
    return Status(StatusCode::kInvalidArgument, "step: found taps of " +
                                                    std::to_string(step.taps.size()) +
                                                    " rows; accepted: none, for a model that was "
                                                    "loaded without taps");
  }
  const auto num_rows = static_cast<int64_t>(step.rows.size());
  int64_t first = 0;  // the first row that may come next
  for (const StepTap& tap : step.taps) {
    if (tap.row < first || tap.row >= num_rows) {
      return Status(StatusCode::kInvalidArgument,
                    "step taps: found row " + std::to_string(tap.row) +
                        "; accepted: " + std::to_string(first) + " to " +
                        std::to_string(num_rows - 1) + ", ascending");
    }
    if (tap.place < 0 || tap.place >= tap_places) {
      return out_of_range(static_cast<size_t>(tap.row), "place of its taps", tap.place, 0,
                          tap_places - 1);
    }
    first = int64_t{tap.row} + 1;
  }
  return {};
}

Status check_features(const Step& step, const StepPorts& ports) {
  const size_t wanted = ports.features == 0 ? 0 : step.rows.size();
  if (step.features.size() != wanted) {
    return Status(StatusCode::kInvalidArgument,
                  "step: found features of " + std::to_string(step.features.size()) +
                      " rows; accepted: " +
                      (wanted == 0 ? "none, for a model that takes none"
                                   : "of all " + std::to_string(wanted)));
  }
  for (size_t row_idx = 0; row_idx < step.features.size(); ++row_idx) {
    const StepFeature& feature = step.features[row_idx];
    const int64_t places = feature.is_own ? ports.taps : ports.features;
    if (feature.place < 0 || feature.place >= places) {
      return out_of_range(row_idx, "place of its feature", feature.place, 0, places - 1);
    }
  }
  return {};
}

}  // namespace

Status check_step(const Step& step, const ModelConfig& config, const LayerRange& layers,
                  DType hidden_dtype, int64_t kv_blocks, const StepPorts& ports) {
  if (!layers.embeds) FORERUN_RETURN_IF_ERROR(check_hidden(step, config, hidden_dtype));
  FORERUN_RETURN_IF_ERROR(check_taps_of(step, ports.taps));
  FORERUN_RETURN_IF_ERROR(check_features(step, ports));
  const auto num_sequences = static_cast<int32_t>(step.sequences.size());
  for (size_t row_idx = 0; row_idx < step.rows.size(); ++row_idx) {
    const StepRow& row = step.rows[row_idx];
    if (layers.embeds && (row.token < 0 || row.token >= config.vocab_size)) {
      return out_of_range(row_idx, "token", row.token, 0, config.vocab_size - 1);
    }
    if (row.position < 0 || row.position >= config.max_position) {
      return out_of_range(row_idx, "position", row.position, 0, config.max_position - 1);
    }
    if (row.sequence_idx < 0 || row.sequence_idx >= num_sequences) {
      return out_of_range(row_idx, "sequence", row.sequence_idx, 0, num_sequences - 1);
    }
    if (row.visible < 1 || row.visible > row.position + 1) {
      return out_of_range(row_idx, "visible tokens", row.visible, 1, row.position + 1);
    }
    if (row.boundary < 0 || row.boundary > row.visible) {
      return out_of_range(row_idx, "boundary", row.boundary, 0, row.visible);
    }
    const int64_t listed = row.visible - row.boundary;
    const auto num_ancestors = static_cast<int64_t>(step.ancestors.size());
    if (listed > 0 && (row.ancestor_begin < 0 || row.ancestor_begin + listed > num_ancestors)) {
      return out_of_range(row_idx, "ancestor list at", row.ancestor_begin, 0,
                          num_ancestors - listed);
    }
    const int32_t* table = step.sequences[static_cast<size_t>(row.sequence_idx)].block_table;
    if (row.slot == kNoSlot && listed == 0 && !step.selections.empty()) continue;
    if (row.slot < 0 || table == nullptr) return out_of_range(row_idx, "slot", row.slot, 0, 0);
    const int32_t block = table[row.slot / kKvBlockTokens];
    if (block < 0 || block >= kv_blocks) {
      return out_of_range(row_idx, "KV block", block, 0, kv_blocks - 1);
    }
    if (listed == 0 && row.slot != row.visible - 1) {
      return out_of_range(row_idx, "slot of a prefix row", row.slot, row.visible - 1,
                          row.visible - 1);
    }
  }
  for (const KvSelection& selection : step.selections) {
    FORERUN_RETURN_IF_ERROR(check_selection(step, selection, config.head_dim, kv_blocks));
  }
  return {};
}

Status check_written_taps(std::span<const StepTap> taps, int64_t places, size_t row_bytes,
                          size_t bytes) {
  for (const StepTap& tap : taps) {
    if (tap.place >= 0 && tap.place < places) continue;
    return out_of_range(static_cast<size_t>(tap.row), "place of its taps", tap.place, 0,
                        places - 1);
  }
  if (bytes == taps.size() * row_bytes) return {};
  return Status(StatusCode::kInvalidArgument,
                "taps of earlier stages: found " + std::to_string(bytes) + " bytes for " +
                    std::to_string(taps.size()) +
                    " rows; accepted: " + std::to_string(taps.size() * row_bytes));
}

Status check_kv_moves(std::span<const KvMove> moves) {
  for (size_t move_idx = 0; move_idx < moves.size(); ++move_idx) {
    const KvMove& move = moves[move_idx];
    const bool ascends = move_idx == 0 || (moves[move_idx - 1].from_slot < move.from_slot &&
                                           moves[move_idx - 1].to_slot < move.to_slot);
    if (move.to_slot < 0 || move.from_slot < move.to_slot || !ascends) {
      return Status(StatusCode::kInvalidArgument,
                    "KV move " + std::to_string(move_idx) + " from slot " +
                        std::to_string(move.from_slot) + " to " + std::to_string(move.to_slot) +
                        "; accepted: moves to lower slots, with both lists in ascending order");
    }
  }
  return {};
}

}  // namespace forerun
