// The message that goes from a pipeline's coordinator to the first stage and from stage to stage:
// the KV moves that are due, then a Step's rows with their slots. Only the coordinator (RoleWorker)
// maps nodes to slots; a stage keeps no maps and applies messages in their order.
//
// Rows whose taps are kept (Step::taps) bring along what the stages so far have kept of them. A
// message without such rows holds nothing of this. Between processes none has them
// (hosts/stage_message_bytes.h).
//
// A message is self-contained: it has no pointers into its sender's memory. It may come from
// another process, so nothing in it is trusted before check_stage_message().
//
// Thread rules: a message belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "forerun/status.h"
#include "step/step.h"

namespace forerun {

// Raised with every change of a message's content or meaning.
inline constexpr uint32_t kStageMessageVersion = 2;

struct StageMessage {
  // A stretch of one of the lists below.
  struct Range {
    int32_t first = 0;
    int32_t count = 0;
  };
  struct Moves {
    int32_t table = 0;  // index in `tables`
    Range moves;
  };
  struct Selection {
    KvSelection what;  // the choice without its pointers
    Range blocks;      // the blocks that KV is gathered into, in `blocks`
    Range index;       // blocks of the key index; empty: tokens are found by their keys
  };

  uint32_t version = kStageMessageVersion;
  uint64_t step = 0;  // numbered by the coordinator, from 1, without gaps

  std::vector<int32_t> blocks;  // physical; tables and selections are stretches of it
  std::vector<Range> tables;    // block tables of sequences or views, as far as the rows see
  // Carried out in this order before any row runs.
  std::vector<Moves> moves_of;
  std::vector<KvMove> moves;
  // StepRow::sequence_idx is an index in `tables`.
  std::vector<StepRow> rows;
  // The rows' indices in the coordinator's Step, ascending: some rows may have been dropped since.
  std::vector<int32_t> numbers;
  int32_t issued_rows = 0;  // rows of the coordinator's Step
  bool whole = false;       // no row may be dropped: something counts them
  std::vector<int32_t> ancestors;
  std::vector<Selection> selections;
  // Input of a stage that does not embed: hidden rows, [rows][width].
  DType hidden_dtype = DType::kBf16;
  int64_t hidden_width = 0;
  std::vector<std::byte> hidden;
  // Rows whose taps are kept, by their indices in `rows`, ascending, and their places.
  std::vector<StepTap> taps;
  // What the stages so far have kept of each of `taps`: [taps][taps of these stages, ascending]
  // [width], in the type of the hidden rows.
  std::vector<std::byte> kept_taps;

  // Empties all lists, which keep their memory.
  void clear();
  void add_moves(const StepSequence& sequence, std::span<const KvMove> moves_to_add);
  // Adds the rows of `step`; its sequences' tables must be as long as the rows see. Called once for
  // a message.
  void add_rows(const Step& step);
  // Adds what a stage has kept of `taps`: [taps][the stage's taps][width].
  void add_kept_taps(std::span<const std::byte> stage_rows);
  // Takes rows out by their numbers, in any order; numbers that are not there are ignored. Does
  // nothing where the message is `whole` or has selections, since those count rows.
  void drop_rows(std::span<const int32_t> dropped);
  // Fills `step` with the rows; it points into the message, which must have been checked.
  void view(Step& step) const;
  // The block table that a stretch of moves refers to.
  StepSequence sequence_of(const Moves& some) const {
    return {blocks.data() + tables[static_cast<size_t>(some.table)].first};
  }
};

// kInvalidArgument where the version differs, a block number is not below the stage's `kv_blocks`,
// or an index points outside of the message or of a sequence's table. Decoder::forward() and
// move_kv() do not check these, since their callers own the tables.
Status check_stage_message(const StageMessage& message, int64_t kv_blocks);

}  // namespace forerun
