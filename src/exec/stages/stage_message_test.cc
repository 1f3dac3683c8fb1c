#include "exec/stages/stage_message.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "exec/fake_decoder_rig.h"

namespace forerun {
namespace {

constexpr int64_t kBlocks = 12;

// A message of two sequences, with a tree behind one of them, a choice of KV with an index, and
// moves in front.
struct Made {
  std::vector<int32_t> first = {3, 7, 1}, second = {5, 0, 2, 4};
  std::vector<int32_t> chosen = {8}, index = {9, 10};
  std::vector<KvMove> moves = {{70, 65}, {72, 66}};
  Step step;
  StageMessage message;

  Made() {
    step.sequences = {{first.data()}, {second.data()}};
    step.ancestors = {65, 70, 65, 71};
    step.rows.push_back({.token = 4, .position = 65, .slot = 65, .visible = 66, .boundary = 66});
    step.rows.push_back({.token = 5,
                         .position = 66,
                         .slot = 70,
                         .visible = 67,
                         .boundary = 65,
                         .ancestor_begin = 0,
                         .wants_logits = true});
    step.rows.push_back({.token = 6,
                         .position = 66,
                         .slot = 71,
                         .visible = 67,
                         .boundary = 65,
                         .ancestor_begin = 2,
                         .wants_logits = true});
    step.rows.push_back({.token = 7,
                         .position = 199,
                         .sequence_idx = 1,
                         .slot = 199,
                         .visible = 200,
                         .boundary = 200,
                         .wants_logits = true});
    step.selections.push_back({.first_row = 3,
                               .num_rows = 1,
                               .sequence_idx = 1,
                               .first_weighed = 200,
                               .tokens = 192,
                               .chosen = 64,
                               .blocks = chosen.data(),
                               .index_blocks = index.data(),
                               .num_index_blocks = 2,
                               .indexed = 64});
    message.add_moves({first.data()}, moves);
    message.add_rows(step);
  }
};

TEST(StageMessage, HoldsAllThatAStepPointsTo) {
  Made made;
  ASSERT_TRUE(check_stage_message(made.message, kBlocks).ok())
      << check_stage_message(made.message, kBlocks).message();
  const StageMessage message = made.message;
  made.first.assign(3, -1);  // changes the source, to which the message must not point
  made.second.assign(4, -1);
  made.chosen.assign(1, -1);
  made.index.assign(2, -1);
  Step step;
  message.view(step);
  ASSERT_EQ(message.moves_of.size(), 1u);
  const int32_t* moved = message.sequence_of(message.moves_of[0]).block_table;
  EXPECT_EQ(moved[0], 3);
  EXPECT_EQ(moved[1], 7);
  ASSERT_EQ(step.rows.size(), 4u);
  EXPECT_EQ(step.ancestors, made.step.ancestors);
  const auto table = [&](size_t row) {
    return step.sequences[static_cast<size_t>(step.rows[row].sequence_idx)].block_table;
  };
  for (const size_t row : {0, 1, 2}) {
    EXPECT_EQ(table(row)[0], 3);
    EXPECT_EQ(table(row)[1], 7);
  }
  EXPECT_EQ(std::vector<int32_t>(table(3), table(3) + 4), (std::vector<int32_t>{5, 0, 2, 4}));
  ASSERT_EQ(step.selections.size(), 1u);
  const KvSelection& selection = step.selections[0];
  EXPECT_EQ(step.sequences[static_cast<size_t>(selection.sequence_idx)].block_table, table(3));
  EXPECT_EQ(selection.blocks[0], 8);
  EXPECT_EQ(selection.index_blocks[1], 10);
  EXPECT_EQ(selection.num_index_blocks, 2);
  EXPECT_EQ(selection.indexed, 64);
}

TEST(StageMessage, RowsAreDroppedWithTheirHiddenRows) {
  Made made;
  StageMessage& message = made.message;
  for (int value = 0; value < 8; ++value) message.hidden.push_back(static_cast<std::byte>(value));
  const StageMessage before = message;
  message.drop_rows(std::vector<int32_t>{1});
  EXPECT_EQ(message.rows.size(), 4u);  // observers are counted
  message.selections.clear();
  message.whole = true;
  message.drop_rows(std::vector<int32_t>{1});
  EXPECT_EQ(message.rows.size(), 4u);
  message.whole = false;
  message.drop_rows(std::vector<int32_t>{7, 2, 0, 2});
  ASSERT_EQ(message.rows.size(), 2u);
  EXPECT_EQ(message.numbers, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(message.rows[0].token, 5);
  EXPECT_EQ(message.rows[1].token, 7);
  EXPECT_EQ(message.hidden, (std::vector<std::byte>{before.hidden[2], before.hidden[3],
                                                    before.hidden[6], before.hidden[7]}));
  EXPECT_TRUE(check_stage_message(message, kBlocks).ok());
  message.drop_rows(std::vector<int32_t>{3, 0});  // by number, not by index
  EXPECT_EQ(message.numbers, (std::vector<int32_t>{1}));
  message.drop_rows(std::vector<int32_t>{1});
  EXPECT_TRUE(message.rows.empty() && message.hidden.empty());
  EXPECT_TRUE(check_stage_message(message, kBlocks).ok());
}

TEST(StageMessage, RowsAreDroppedWithTheirTaps) {
  Made made;
  made.step.selections.clear();
  made.step.taps = {{0, 30}, {2, 12}, {3, 17}};
  StageMessage message;
  message.add_rows(made.step);
  EXPECT_TRUE(message.kept_taps.empty());
  const auto bytes = [](std::initializer_list<int> values) {
    std::vector<std::byte> all;
    for (const int value : values) all.push_back(static_cast<std::byte>(value));
    return all;
  };
  // Two stages add taps, one with two bytes and one with one byte.
  message.add_kept_taps(bytes({1, 2, 21, 22, 31, 32}));
  message.add_kept_taps({});
  message.add_kept_taps(bytes({3, 23, 33}));
  EXPECT_EQ(message.kept_taps, bytes({1, 2, 3, 21, 22, 23, 31, 32, 33}));
  EXPECT_TRUE(check_stage_message(message, kBlocks).ok());
  message.drop_rows(std::vector<int32_t>{1});
  ASSERT_EQ(message.taps.size(), 3u);
  EXPECT_EQ(message.taps[1].row, 1);
  EXPECT_EQ(message.taps[2].row, 2);
  EXPECT_EQ(message.kept_taps.size(), 9u);
  message.drop_rows(std::vector<int32_t>{2});
  ASSERT_EQ(message.taps.size(), 2u);
  EXPECT_EQ(message.taps[1].row, 1);
  EXPECT_EQ(message.taps[1].place, 17);
  EXPECT_EQ(message.kept_taps, bytes({1, 2, 3, 31, 32, 33}));
  EXPECT_TRUE(check_stage_message(message, kBlocks).ok());
  Step step;
  message.view(step);
  ASSERT_EQ(step.taps.size(), 2u);
  EXPECT_EQ(step.taps[0].place, 30);
  message.drop_rows(std::vector<int32_t>{0, 3});
  EXPECT_TRUE(message.taps.empty() && message.kept_taps.empty() && message.rows.empty());
  EXPECT_TRUE(check_stage_message(message, kBlocks).ok());
}

TEST(StageMessage, TablesAreAsLongAsRowsSee) {
  const Made made;
  ASSERT_EQ(made.message.tables.size(), 3u);
  EXPECT_EQ(made.message.tables[0].count, 2);  // slots 65 to 72
  EXPECT_EQ(made.message.tables[1].count, 2);
  EXPECT_EQ(made.message.tables[2].count, 4);
}

TEST(StageMessage, NamesWhatItRefuses) {
  struct Spoiled {
    const char* name;
    std::function<void(StageMessage&)> spoil;
  };
  const std::vector<Spoiled> all = {
      {"version", [](StageMessage& m) { ++m.version; }},
      {"KV block", [](StageMessage& m) { m.blocks[2] = 12; }},
      {"KV block", [](StageMessage& m) { m.blocks[0] = -1; }},
      {"block table", [](StageMessage& m) { m.tables[2].count = 100; }},
      {"block table", [](StageMessage& m) { m.tables[1].first = -1; }},
      {"block table", [](StageMessage& m) { m.tables[1].count = -1; }},
      {"table of moves", [](StageMessage& m) { m.moves_of[0].table = 3; }},
      {"moves", [](StageMessage& m) { m.moves_of[0].moves.count = 3; }},
      {"slot of a move", [](StageMessage& m) { m.moves[1].from_slot = 128; }},
      {"slot of a move", [](StageMessage& m) { m.moves[0].to_slot = -1; }},
      {"numbers of rows", [](StageMessage& m) { m.numbers.pop_back(); }},
      {"number of row 2", [](StageMessage& m) { m.numbers[2] = 1; }},
      {"number of row 0", [](StageMessage& m) { m.numbers[0] = -1; }},
      {"issued rows", [](StageMessage& m) { m.issued_rows = 3; }},
      {"tapped row 4",
       [](StageMessage& m) {
         m.taps = {{4, 0}};
       }},
      {"tapped row -1",
       [](StageMessage& m) {
         m.taps = {{-1, 0}};
       }},
      {"tapped row 2",
       [](StageMessage& m) {
         m.taps = {{2, 0}, {2, 1}};
       }},
      {"bytes of taps", [](StageMessage& m) { m.kept_taps.resize(1); }},
      {"bytes of taps",
       [](StageMessage& m) {
         m.taps = {{1, 0}, {2, 1}};
         m.kept_taps.resize(3);
       }},
      {"row 3, table", [](StageMessage& m) { m.rows[3].sequence_idx = 3; }},
      {"row 0, slot", [](StageMessage& m) { m.rows[0].slot = 128; }},
      {"row 0, slot", [](StageMessage& m) { m.rows[0].slot = -2; }},
      {"row 0, boundary", [](StageMessage& m) { m.rows[0].boundary = m.rows[0].visible = 129; }},
      {"row 1, boundary", [](StageMessage& m) { m.rows[1].boundary = -1; }},
      {"ancestors", [](StageMessage& m) { m.rows[2].ancestor_begin = 3; }},
      {"ancestors", [](StageMessage& m) { m.rows[2].visible = 1 << 30; }},
      {"row 2, ancestor", [](StageMessage& m) { m.ancestors[3] = 128; }},
      {"table to choose from", [](StageMessage& m) { m.selections[0].what.sequence_idx = -1; }},
      {"tokens to choose from", [](StageMessage& m) { m.selections[0].what.tokens = 257; }},
      {"tokens to choose from", [](StageMessage& m) { m.selections[0].what.first_weighed = 257; }},
      {"index", [](StageMessage& m) { m.selections[0].index.count = 3; }},
      {"chosen tokens", [](StageMessage& m) { m.selections[0].what.chosen = 128; }}};
  for (const Spoiled& spoiled : all) {
    Made made;
    spoiled.spoil(made.message);
    const Status status = check_stage_message(made.message, kBlocks);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << spoiled.name;
    EXPECT_NE(status.message().find(spoiled.name), std::string::npos) << status.message();
  }
}

// An accepted message must never lead to accesses outside of it, which sanitizers would find.
TEST(StageMessage, RandomNumbersAreRefusedOrHarmless) {
  std::mt19937 rng(3);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    Made made;
    StageMessage& message = made.message;
    std::vector<int32_t*> numbers;
    for (int32_t& block : message.blocks) numbers.push_back(&block);
    for (auto& table : message.tables) numbers.insert(numbers.end(), {&table.first, &table.count});
    for (KvMove& move : message.moves) {
      numbers.insert(numbers.end(), {&move.from_slot, &move.to_slot});
    }
    for (StepRow& row : message.rows) {
      numbers.insert(numbers.end(), {&row.sequence_idx, &row.slot, &row.boundary, &row.visible,
                                     &row.ancestor_begin});
    }
    for (int32_t& slot : message.ancestors) numbers.push_back(&slot);
    for (int changes = 0; changes < 2; ++changes) {
      int32_t* const number = numbers[rng() % numbers.size()];
      *number =
          rng() % 4 == 0 ? static_cast<int32_t>(rng()) : static_cast<int32_t>(rng() % 140) - 4;
    }
    if (!check_stage_message(message, kBlocks).ok()) continue;
    ++accepted;
    FakeDecoder decoder(60, kBlocks, 1);
    Step step;
    for (const StageMessage::Moves& some : message.moves_of) {
      (void)decoder.move_kv(message.sequence_of(some), message.moves);
    }
    message.view(step);
    step.selections.clear();
    for (StepRow& row : step.rows) {
      // The decoder checks the slot itself (step_check.h).
      if (row.slot == kNoSlot) row.slot = 0;
    }
    (void)decoder.forward(step);
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace forerun
