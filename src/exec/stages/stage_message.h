// The message from a pipeline's coordinator to the first stage and from stage to stage: the due KV
// moves, then a Step's rows with their slots. Only the coordinator (RoleWorker) maps nodes to
// slots; a stage keeps no maps and applies messages in their order.
//
// Rows with taps (Step::taps) carry the taps that earlier stages have kept of them. Messages
// without such rows have no data for this. Messages between processes never have any
// (hosts/stage_message_bytes.h).
//
// A message is self-contained: it has no pointers into its sender's memory. It may come from
// another process, so a stage trusts nothing in it before check_stage_message().
//
// Only one thread at a time may use a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "forerun/status.h"
#include "step/step.h"

namespace forerun {

// Raised with every change to a message's content or meaning.
inline constexpr uint32_t kStageMessageVersion = 2;

struct StageMessage {
  // A range within one of the lists below.
  struct Range {
    int32_t first = 0;
    int32_t count = 0;
  };
  struct Moves {
    int32_t table = 0;  // index in `tables`
    Range moves;
  };
  struct Selection {
    KvSelection what;  // the selection without its pointers
    Range blocks;      // range in `blocks` of the destination blocks
    Range index;       // blocks of the key index; empty if tokens are found by their keys
  };

  uint32_t version = kStageMessageVersion;
  uint64_t step = 0;  // the coordinator numbers Steps from 1, without gaps

  std::vector<int32_t> blocks;  // physical; tables and selections are ranges of it
  std::vector<Range> tables;    // block tables of sequences or views, as far as rows attend
  // Moves in the order in which they are carried out, before any row runs.
  std::vector<Moves> moves_of;
  std::vector<KvMove> moves;
  // StepRow::sequence_idx is an index in `tables`.
  std::vector<StepRow> rows;
  // The rows' indices in the coordinator's Step, ascending; dropped rows leave gaps.
  std::vector<int32_t> numbers;
  int32_t issued_rows = 0;  // rows of the coordinator's Step
  bool whole = false;       // true if no row may be dropped, because something counts them
  std::vector<int32_t> ancestors;
  std::vector<Selection> selections;
  // Input of a stage without the embedding: hidden rows, [rows][width].
  DType hidden_dtype = DType::kBf16;
  int64_t hidden_width = 0;
  std::vector<std::byte> hidden;
  // Rows with taps, by their indices in `rows`, ascending, and their places.
  std::vector<StepTap> taps;
  // The taps that earlier stages have kept of each of `taps`: [taps][taps of these stages,
  // ascending][width], in the type of the hidden rows.
  std::vector<std::byte> kept_taps;

  // Empties all lists; they keep their memory.
  void clear();
  void add_moves(const StepSequence& sequence, std::span<const KvMove> moves_to_add);
  // Adds the rows of `step`, whose sequences' tables must cover all visible slots. Call it once per
  // message.
  void add_rows(const Step& step);
  // Adds the taps that a stage has kept of `taps`: [taps][the stage's taps][width].
  void add_kept_taps(std::span<const std::byte> stage_rows);
  // Removes rows by their numbers, in any order; ignores missing numbers. Does nothing if the
  // message is `whole` or has selections, since those count rows.
  void drop_rows(std::span<const int32_t> dropped);
  // Fills `step` with the rows; it points into the message, which must have been checked.
  void view(Step& step) const;
  // Returns the block table of a list of moves.
  StepSequence sequence_of(const Moves& some) const {
    return {blocks.data() + tables[static_cast<size_t>(some.table)].first};
  }
};

// Returns kInvalidArgument if the version differs, a block number is not below the stage's
// `kv_blocks`, or an index points outside of the message or of a sequence's table.
// Decoder::forward() and move_kv() do not check these, since their callers own the tables.
Status check_stage_message(const StageMessage& message, int64_t kv_blocks);

}  // namespace forerun
