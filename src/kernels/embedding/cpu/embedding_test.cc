#include "kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

namespace forerun {
namespace {

constexpr int64_t kVocab = 50;

// Tests values that bf16 cannot represent, in tables with NaNs between the rows.
template <class T, class F>
std::vector<T> make_table(int64_t dim, int64_t stride, F from_float) {
  std::vector<T> table(static_cast<size_t>(kVocab * stride),
                       from_float(std::numeric_limits<float>::quiet_NaN()));
  for (int64_t row = 0; row < kVocab; ++row) {
    for (int64_t column = 0; column < dim; ++column) {
      table[static_cast<size_t>(row * stride + column)] =
          from_float(1.001f * static_cast<float>(row) - 0.37f * static_cast<float>(column));
    }
  }
  return table;
}

void check(const EmbeddingTable& table, int64_t dim) {
  const std::vector<int32_t> tokens = {0, 49, 7, 7, 23, 1, 48};
  const auto rows = static_cast<int64_t>(tokens.size());
  for (const bool round : {false, true}) {
    std::vector<float> expected(static_cast<size_t>(rows * dim));
    embedding_ref(table, tokens, round, MatrixView<float>(expected.data(), {rows, dim}));
    EXPECT_NE(expected[0], expected[static_cast<size_t>(dim)]);  // tokens 0 and 49 differ
    for (const int32_t team_size : {1, 3}) {
      const auto device = std::move(CpuDevice::create({}, team_size)).value();
      std::vector<float> found(expected.size());
      device->run([&](const Team& team) {
        embedding(team, table, tokens, round, MatrixView<float>(found.data(), {rows, dim}));
      });
      EXPECT_EQ(found, expected) << "dim " << dim << " round " << round << " team " << team_size;
    }
  }
}

TEST(Embedding, LooksUpEveryDtype) {
  for (const int64_t dim : {1, 16, 33, 512}) {
    const int64_t stride = dim + 3;
    const auto f32_table = make_table<float>(dim, stride, [](float x) { return x; });
    const auto bf16_table = make_table<bf16>(dim, stride, [](float x) { return to_bf16(x); });
    const auto f16_table = make_table<f16>(dim, stride, [](float x) { return to_f16(x); });
    check(MatrixView<const float>(f32_table.data(), {kVocab, dim}, stride), dim);
    check(MatrixView<const bf16>(bf16_table.data(), {kVocab, dim}, stride), dim);
    check(MatrixView<const f16>(f16_table.data(), {kVocab, dim}, stride), dim);
  }
}

TEST(Embedding, RoundsOnlyWhereAsked) {
  const std::vector<float> table = {1.0f + 1.0f / 1024.0f, 2.0f};
  const EmbeddingTable view = MatrixView<const float>(table.data(), {1, 2});
  const std::vector<int32_t> tokens = {0};
  std::vector<float> y(2);
  embedding(Team(0, 1, nullptr), view, tokens, false, MatrixView<float>(y.data(), {1, 2}));
  EXPECT_EQ(y, table);
  embedding(Team(0, 1, nullptr), view, tokens, true, MatrixView<float>(y.data(), {1, 2}));
  EXPECT_EQ(y, (std::vector<float>{1.0f, 2.0f}));
}

TEST(Embedding, LooksUpRowsOfAPackedHead) {
  constexpr int64_t kDim = 64;
  const std::vector<bf16> table = make_table<bf16>(kDim, kDim, [](float x) { return to_bf16(x); });
  const MatrixView<const bf16> rows(table.data(), {kVocab, kDim});
  check(PackedTable{LinearWeight::pair_bf16(rows)}, kDim);
  // The head has no row for this token.
  std::vector<float> y(kDim, 1.0f);
  const std::vector<int32_t> tokens = {kVocab};
  embedding(Team(0, 1, nullptr), PackedTable{LinearWeight::pair_bf16(rows)}, tokens, false,
            MatrixView<float>(y.data(), {1, kDim}));
  EXPECT_EQ(y, std::vector<float>(kDim));
}

}  // namespace
}  // namespace forerun
