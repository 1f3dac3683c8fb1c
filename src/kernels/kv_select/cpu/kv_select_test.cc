// Compares the selection with importance computed by plain loops, and the gathered keys and values
// with the cache.
#include "kernels/kv_select/kv_select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <tuple>
#include <vector>

#include "base/sanitized.h"
#include "kernels/attention/cpu/test_cache.h"

namespace forerun {
namespace {

constexpr int32_t kPrefix = 700;
constexpr int32_t kKvHeads = 3;

class KvSelect : public ::testing::TestWithParam<std::tuple<DType, int32_t, int32_t, int32_t>> {
 protected:
  KvSelect() : cache_(std::get<0>(GetParam()), 32, kKvHeads, std::get<1>(GetParam())), table_(16) {
    for (int32_t block = 0; block < 16; ++block) table_[static_cast<size_t>(block)] = 31 - block;
    for (int32_t position = 0; position < kPrefix; ++position) {
      cache_.put(table_, position, 1, position);
    }
    width_ = int64_t{kKvHeads} * 2 * cache_.kv().head_dim;
    for (int32_t position = kPrefix - std::get<2>(GetParam()); position < kPrefix; ++position) {
      const std::vector<float> query = query_of(1, position, width_);
      queries_.insert(queries_.end(), query.begin(), query.end());
    }
  }
  // Returns a call in which each observer attends to `weighed_step` (0 or 1) more tokens than the
  // one before.
  KvSelectionCall call(int32_t tokens, int32_t chosen, int32_t weighed_step) const {
    const int32_t observers = std::get<2>(GetParam());
    return {.queries = {queries_.data(), {observers, width_}},
            .block_table = table_.data(),
            .first_weighed = kPrefix - weighed_step * (observers - 1),
            .weighed_step = weighed_step,
            .tokens = tokens,
            .chosen = chosen,
            .pooling = std::get<3>(GetParam()),
            .blocks = blocks_.data()};
  }
  void select(const KvSelectionCall& call, int32_t team_size) {
    const auto device = std::move(CpuDevice::create({}, team_size)).value();
    KvSelectionScratch scratch;
    scratch.reserve(team_size, call, 2 * kKvHeads, cache_.kv());
    device->run([&](const Team& team) { select_kv(team, call, cache_.kv(), &scratch); });
  }
  // Expects the gathered tokens to be in sequence order, and none to be less important, beyond a
  // relative tolerance, than the least of the `chosen` most important tokens.
  void expect_the_most_important(const KvSelectionCall& call, const std::vector<double>& importance,
                                 double tolerance) const {
    for (int32_t kv_head = 0; kv_head < kKvHeads; ++kv_head) {
      const double* const of_head = importance.data() + kv_head * call.tokens;
      std::vector<double> sorted(of_head, of_head + call.tokens);
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      const double least = sorted[static_cast<size_t>(call.chosen) - 1];
      int32_t token = 0;
      for (int32_t to = 0; to < call.chosen; ++to) {
        const std::vector<std::byte> copy =
            slot_of(blocks_[static_cast<size_t>(to / 64)], to % 64, kv_head);
        // All slots differ, so the first equal slot after the last one found is the right token.
        while (token < call.tokens &&
               slot_of(table_[static_cast<size_t>(token / 64)], token % 64, kv_head) != copy) {
          ++token;
        }
        ASSERT_LT(token, call.tokens) << "slot " << to << " holds no token after the previous one";
        EXPECT_GE(of_head[token], least * (1.0 - tolerance)) << token;
        ++token;
      }
    }
  }
  // Returns the key, piece by piece, and the value of a slot.
  std::vector<std::byte> slot_of(int32_t block, int32_t offset, int32_t kv_head) const {
    const PagedKv& kv = cache_.kv();
    std::vector<std::byte> bytes;
    for (int64_t piece = 0; piece < kv.head_bytes(); piece += kKeyPieceBytes) {
      const std::byte* const from = kv.key(block, offset, kv_head) + piece * kKeyGroup;
      bytes.insert(bytes.end(), from, from + kKeyPieceBytes);
    }
    const std::byte* const value = kv.value(block, offset, kv_head);
    bytes.insert(bytes.end(), value, value + kv.head_bytes());
    return bytes;
  }

  TestCache cache_;
  std::vector<int32_t> table_;
  std::vector<int32_t> blocks_ = {3, 0, 5, 1};
  int64_t width_ = 0;
  std::vector<float> queries_;
};

TEST_P(KvSelect, TakesTheMostImportantTokensInTheOrderOfTheText) {
  for (const auto& [tokens, chosen, weighed_step] :
       {std::tuple{640, 256, 1}, {640, 64, 1}, {640, 128, 0}, {65, 64, 0}, {256, 256, 1}}) {
    const KvSelectionCall selection = call(tokens, chosen, weighed_step);
    KvSelectionCall reference = selection;
    const std::vector<float> used = used_queries(queries_, cache_.kv());
    reference.queries = {used.data(), {selection.queries.dim(0), width_}};
    const std::vector<double> importance = kv_importance_ref(reference, cache_.kv());
    for (const int32_t team_size : {1, 2}) {
      select(selection, team_size);
      expect_the_most_important(selection, importance, 1e-4);
    }
  }
}

// Rows of draft tokens may be NaN; the selection must be the same as without these rows.
TEST_P(KvSelect, QueriesOfNanSayNothing) {
  const int32_t observers = std::get<2>(GetParam());
  const int32_t faulty = observers / 2;
  if (faulty == 0) GTEST_SKIP() << "one observer";
  const auto gathered = [&] {
    std::vector<std::vector<std::byte>> slots;
    for (int32_t to = 0; to < 128 * kKvHeads; ++to) {
      slots.push_back(slot_of(blocks_[static_cast<size_t>(to / kKvHeads / 64)], to / kKvHeads % 64,
                              to % kKvHeads));
    }
    return slots;
  };
  KvSelectionCall sound = call(640, 128, 0);
  sound.queries = {queries_.data() + faulty * width_, {observers - faulty, width_}};
  select(sound, 1);
  const std::vector<std::vector<std::byte>> expected = gathered();
  std::fill_n(queries_.begin(), faulty * width_, std::numeric_limits<float>::quiet_NaN());
  select(call(640, 128, 0), 2);
  EXPECT_EQ(gathered(), expected);
}

// Selects by an index of the candidate tokens, which is built first and then grows.
TEST_P(KvSelect, FindsTheMostImportantTokensByTheirQuantizedKeys) {
  const std::vector<int32_t> index = {6, 7, 8, 9, 10, 11, 12, 13};
  ASSERT_GE(static_cast<int32_t>(index.size()), pq_index_blocks(640, cache_.kv().head_dim));
  int32_t indexed = 0;
  const std::vector<int32_t> lengths =
      kSanitized ? std::vector<int32_t>{320, 384} : std::vector<int32_t>{320, 384, 640};
  for (const int32_t tokens : lengths) {
    KvSelectionCall selection = call(tokens, 128, 0);
    for (const int32_t team_size : {2, 1}) {
      if (kSanitized && team_size == 1) continue;
      selection.index = {index.data(), indexed};
      select(selection, team_size);
      // The index does not round queries.
      expect_the_most_important(selection, kv_importance_ref(selection, cache_.kv()), 0.03);
    }
    indexed = tokens;
  }
}

std::vector<DType> dtypes() {
  if (kThreadSanitized) return {DType::kBf16};
  return {DType::kF32, DType::kBf16};
}
std::vector<int32_t> head_dims() {
  if (kThreadSanitized) return {20};
  if (kAddressSanitized) return {20, 64};
  return {16, 20, 64};
}
std::vector<int32_t> poolings() { return kSanitized ? std::vector{5} : std::vector{1, 5}; }
INSTANTIATE_TEST_SUITE_P(Shapes, KvSelect,
                         ::testing::Combine(::testing::ValuesIn(dtypes()),
                                            ::testing::ValuesIn(head_dims()),
                                            ::testing::Values(1, 32),  // observers
                                            ::testing::ValuesIn(poolings())));

}  // namespace
}  // namespace forerun
