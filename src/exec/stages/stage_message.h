// What goes from the coordinator of a pipeline to its first stage and from stage to stage: the
// moves of KV that are due, then a Step's rows with their slots. Who holds which node is known to
// the coordinator alone (RoleWorker); a stage keeps no maps and applies messages in their order.
//
// A message holds all that it says: nothing points into memory of who has made it. It may come from
// another process, so nothing in it is believed before check_stage_message().
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

// Changes with any change of what a message holds or means.
inline constexpr uint32_t kStageMessageVersion = 2;

struct StageMessage {
  // A stretch of one of the lists below.
  struct Range {
    int32_t first = 0;
    int32_t count = 0;
  };
  struct Moves {
    int32_t table = 0;  // in `tables`
    Range moves;
  };
  struct Selection {
    KvSelection what;  // without its pointers
    Range blocks;      // that it gathers into, in `blocks`
    Range index;       // those of its index; none: by the keys themselves
  };

  uint32_t version = kStageMessageVersion;
  uint64_t step = 0;  // numbered by the coordinator, from 1, without gaps

  std::vector<int32_t> blocks;  // physical; tables and selections are stretches of it
  std::vector<Range> tables;    // of sequences, or of views, as far as the rows see
  // Before any row runs, in this order.
  std::vector<Moves> moves_of;
  std::vector<KvMove> moves;
  // StepRow::sequence_idx is in `tables`.
  std::vector<StepRow> rows;
  // Their places in the coordinator's Step, ascending: some may have been dropped on the way.
  std::vector<int32_t> numbers;
  int32_t issued_rows = 0;  // of the coordinator's Step
  bool whole = false;       // no row may be dropped: something counts them
  std::vector<int32_t> ancestors;
  std::vector<Selection> selections;
  // Input of a stage that does not embed: hidden rows, [rows][width].
  DType hidden_dtype = DType::kBf16;
  int64_t hidden_width = 0;
  std::vector<std::byte> hidden;

  // Empties all lists, which keep their memory.
  void clear();
  void add_moves(const StepSequence& sequence, std::span<const KvMove> moves_to_add);
  // The rows of `step`, whose sequences' tables must be as long as its rows see; once a message.
  void add_rows(const Step& step);
  // Takes rows out, by their numbers in any order; those that are not there, too. Nothing where the
  // message is whole or has selections, whose observers are counted.
  void drop_rows(std::span<const int32_t> dropped);
  // The rows as a Step that points into the message. Needs a message that has been checked.
  void view(Step& step) const;
  // The table of a stretch of moves.
  StepSequence sequence_of(const Moves& some) const {
    return {blocks.data() + tables[static_cast<size_t>(some.table)].first};
  }
};

// kInvalidArgument where the version is another, a block is none of the stage's `kv_blocks`, or
// anything points outside of the message or of a sequence's table: what Decoder::forward() and
// move_kv() do not check since their callers own the tables.
Status check_stage_message(const StageMessage& message, int64_t kv_blocks);

}  // namespace forerun
