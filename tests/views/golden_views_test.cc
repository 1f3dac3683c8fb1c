// SnapKV, Vegas and TopK, run by a real executor and the real selection kernel, against what plain
// numpy chooses by the papers' rules (tools/golden_views.py, which ctest runs before this test):
// the same tokens, at the same times.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors_header.h"
#include "exec/kv_view_rig.h"
#include "kernels/kv_select/kv_select.h"

namespace forerun {
namespace {

constexpr int32_t kGoldenHeads = 4;
constexpr int32_t kGoldenKvHeads = 2;
constexpr int32_t kGoldenHeadDim = 64;
constexpr int32_t kGoldenPrompt = 500;
constexpr int32_t kGoldenEnd = 900;
constexpr int32_t kGoldenVerified = 3;
constexpr int64_t kGoldenBlocks = 64;

struct GoldenChoice {
  int32_t prefix = 0;
  std::vector<int32_t> tokens = {};  // [kv_heads][chosen]
};

struct GoldenText {
  std::vector<float> keys;     // [tokens][kv_heads * head_dim]
  std::vector<float> queries;  // [tokens][heads * head_dim]
  std::vector<GoldenChoice> choices;
};

template <class T>
std::vector<T> tensor_values(const MappedFile& file, const SafetensorsEntry& entry) {
  std::vector<T> values((entry.end - entry.begin) / sizeof(T));
  std::memcpy(values.data(), file.bytes().data() + entry.begin, entry.end - entry.begin);
  return values;
}

GoldenText read_golden_text(const std::string& name) {
  GoldenText golden;
  const std::string path =
      std::string(FORERUN_SOURCE_DIR) + "/build/goldens/views/" + name + ".safetensors";
  auto file = MappedFile::open(path);
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file.ok()) return golden;
  auto entries = parse_safetensors_header(file->bytes(), file->bytes().size());
  EXPECT_TRUE(entries.ok()) << entries.status().message();
  if (!entries.ok()) return golden;
  std::vector<int32_t> prefixes, chosen;
  for (const SafetensorsEntry& entry : *entries) {
    if (entry.name == "keys") golden.keys = tensor_values<float>(*file, entry);
    if (entry.name == "queries") golden.queries = tensor_values<float>(*file, entry);
    if (entry.name == "prefixes") prefixes = tensor_values<int32_t>(*file, entry);
    if (entry.name == "chosen") chosen = tensor_values<int32_t>(*file, entry);
  }
  const auto each = static_cast<int64_t>(chosen.size() / std::max(prefixes.size(), size_t{1}));
  for (size_t idx = 0; idx < prefixes.size(); ++idx) {
    const auto first = chosen.begin() + static_cast<int64_t>(idx) * each;
    golden.choices.push_back({prefixes[idx], {first, first + each}});
  }
  return golden;
}

// A KV cache of one layer in f32, filled by the rows of the Steps that it is shown. A token's value
// is its position.
class ShownCache {
 public:
  explicit ShownCache(const GoldenText& golden) : golden_(golden) {
    kv_.dtype = DType::kF32;
    kv_.num_kv_heads = kGoldenKvHeads;
    kv_.head_dim = kGoldenHeadDim;
    kv_.block_stride_bytes = kv_.layer_bytes();
    memory_.resize(static_cast<size_t>(kv_.block_stride_bytes * kGoldenBlocks) + 64);
    kv_.data = memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
  }

  // Writes the rows' keys, then lets the Step's selections choose.
  void show(const Step& step) {
    for (const StepRow& row : step.rows) {
      if (row.slot == kNoSlot) continue;
      AttentionRow to;
      to.slot = row.slot;
      to.block_table = step.sequences[static_cast<size_t>(row.sequence_idx)].block_table;
      const std::vector<float> value(kGoldenKvHeads * kGoldenHeadDim,
                                     static_cast<float>(row.position));
      for (int32_t head = 0; head < kGoldenKvHeads; ++head) {
        append_kv_head(&golden_.keys[at(row.position, kGoldenKvHeads)], value.data(), to, head,
                       kv_);
      }
    }
    for (const KvSelection& selection : step.selections) select(step, selection);
  }
  const std::vector<GoldenChoice>& choices() const { return choices_; }

 private:
  static size_t at(int32_t position, int32_t heads) {
    return static_cast<size_t>(position) * static_cast<size_t>(heads * kGoldenHeadDim);
  }

  void select(const Step& step, const KvSelection& selection) {
    std::vector<float> queries;
    for (int32_t row = 0; row < selection.num_rows; ++row) {
      const int32_t position = step.rows[static_cast<size_t>(selection.first_row + row)].position;
      const float* const first = &golden_.queries[at(position, kGoldenHeads)];
      queries.insert(queries.end(), first, first + kGoldenHeads * kGoldenHeadDim);
    }
    const KvSelectionCall call = {
        .queries = {queries.data(), {selection.num_rows, int64_t{kGoldenHeads} * kGoldenHeadDim}},
        .block_table = step.sequences[static_cast<size_t>(selection.sequence_idx)].block_table,
        .first_weighed = selection.first_weighed,
        .weighed_step = selection.weighed_step,
        .tokens = selection.tokens,
        .chosen = selection.chosen,
        .pooling = selection.pooling,
        .blocks = selection.blocks};
    KvSelectionScratch scratch;
    scratch.reserve(1, call, kGoldenHeads, kv_);
    select_kv(Team(0, 1, nullptr), call, kv_, &scratch);
    // The last observer of a prefix sees itself, rows of a tree what lies before them all.
    GoldenChoice made = {.prefix = selection.first_weighed +
                                   selection.weighed_step * (selection.num_rows - 1)};
    for (int32_t head = 0; head < kGoldenKvHeads; ++head) {
      for (int32_t token = 0; token < selection.chosen; ++token) {
        const std::byte* const value = kv_.value(selection.blocks[token / 64], token % 64, head);
        made.tokens.push_back(static_cast<int32_t>(*reinterpret_cast<const float*>(value)));
      }
    }
    choices_.push_back(std::move(made));
  }

  const GoldenText& golden_;
  PagedKv kv_;
  std::vector<std::byte> memory_;
  std::vector<GoldenChoice> choices_;
};

class GoldenViews : public ::testing::TestWithParam<std::pair<const char*, int32_t>> {};

// Rounds of a draft row through the view and a verification whose rows are all right.
TEST_P(GoldenViews, ChooseTheTokensThatNumpyChooses) {
  const auto& [name, budget] = GetParam();
  const GoldenText golden = read_golden_text(std::string(name) + "-" + std::to_string(budget));
  ASSERT_GT(golden.choices.size(), 1u);
  ShownCache cache(golden);
  Rig rig({.blocks = kGoldenBlocks});
  rig.target.on_step = [&](const Step& step) { cache.show(step); };
  const KvViewSpec view = {find_view(name), budget};
  ASSERT_TRUE(rig.executor->open(1, plain_spec(kGoldenEnd + 10)).ok());
  rig.executor->submit(prefix_item(1, Role::kTarget, text_of(kGoldenPrompt, 11)));
  ASSERT_TRUE(rig.next()->status.ok());
  std::vector<NodeId> verified;
  for (int32_t prefix = kGoldenPrompt; prefix < kGoldenEnd; prefix += kGoldenVerified) {
    WorkItem draft = target_item(1, view);
    if (!verified.empty()) draft.edits.push_back({.kind = Edit::Kind::kCommit, .nodes = verified});
    draft.rows.push_back(tree_row(9, prefix, prefix, kNoNode, Want::kTopK));
    rig.executor->submit(std::move(draft));
    const auto drafted = rig.next();
    ASSERT_TRUE(drafted && drafted->status.ok()) << drafted->status.message();
    if (prefix + kGoldenVerified > kGoldenEnd) break;
    WorkItem verify = target_item(1, {});
    verify.chooses_for = view;
    verify.edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {}});
    verified.clear();
    for (int32_t row = 0; row < kGoldenVerified; ++row) {
      verified.push_back(prefix + row);
      verify.rows.push_back(tree_row(row, prefix + row, prefix + row,
                                     row == 0 ? kNoNode : prefix + row - 1, Want::kSample));
    }
    rig.executor->submit(std::move(verify));
    const auto result = rig.next();
    ASSERT_TRUE(result && result->status.ok()) << result->status.message();
  }
  rig.end(1);
  ASSERT_EQ(cache.choices().size(), golden.choices.size());
  for (size_t idx = 0; idx < golden.choices.size(); ++idx) {
    EXPECT_EQ(cache.choices()[idx].prefix, golden.choices[idx].prefix) << idx;
    ASSERT_EQ(cache.choices()[idx].tokens, golden.choices[idx].tokens) << idx;
  }
}

INSTANTIATE_TEST_SUITE_P(Views, GoldenViews,
                         ::testing::Values(std::pair{"snapkv", 128}, std::pair{"snapkv", 320},
                                           std::pair{"vegas", 128}, std::pair{"vegas", 320},
                                           std::pair{"topk", 128}, std::pair{"topk", 320}),
                         [](const auto& of) {
                           return std::string(of.param.first) + "_" +
                                  std::to_string(of.param.second);
                         });

}  // namespace
}  // namespace forerun
