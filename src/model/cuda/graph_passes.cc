#include "model/cuda/graph_passes.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "kernels/attention/cuda/plan.h"
#include "model/cuda/step_block.h"

namespace forerun::cuda {
namespace {

constexpr int32_t kContexts[] = {100, 500, 1000, 2000, 4000, 8000, 16000, 32000};

// Returns the rows of `sequences` sequences with `each` rows behind `context` tokens; in a tree
// every two rows are siblings. `numbers` is 0, 1, 2, ...: it serves as block tables, each of which
// begins one entry after the previous one, and as slots of ancestors.
std::vector<AttentionRow> rows_of(int32_t sequences, int32_t each, int32_t context, bool tree,
                                  const std::vector<int32_t>& numbers) {
  std::vector<AttentionRow> rows;
  for (int32_t sequence = 0; sequence < sequences; ++sequence) {
    for (int32_t i = 0; i < each; ++i) {
      const int32_t position = context + (tree ? (i + 1) / 2 : i);
      rows.push_back({.last_visible = position,
                      .boundary = tree ? context : position + 1,
                      .slot = context + i,
                      .block_table = numbers.data() + sequence,
                      .ancestors = tree ? numbers.data() + context : nullptr});
    }
  }
  return rows;
}

}  // namespace

std::vector<PassKeyCuda> graph_passes_cuda(const AttentionShapeCuda& shape, int64_t max_context,
                                           int32_t max_rows) {
  max_rows = std::min(max_rows, kMaxGraphRows);
  std::vector<int32_t> numbers(static_cast<size_t>(*std::rbegin(kContexts) + 2 * kMaxGraphRows));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::set<PassKeyCuda> passes;
  AttentionPlanCuda plan;
  for (int32_t rows = pass_bucket(1); rows <= max_rows; rows = pass_bucket(rows + 1)) {
    for (int32_t each = 1; each <= rows; each = each == 4 ? 6 : each == 6 ? 8 : 2 * each) {
      for (const int32_t context : kContexts) {
        if (context > max_context) break;
        for (const bool tree : {false, true}) {
          if (tree && each == 1) continue;
          const int32_t sequences = std::max(1, rows / each);
          plan.build(rows_of(sequences, sequences == 1 ? rows : each, context, tree, numbers),
                     shape);
          PassKeyCuda key{.rows = rows, .kernel = plan.kernel, .shared_prefix = plan.shared_prefix};
          passes.insert(key);
          key.wanted = rows;
          passes.insert(key);
        }
      }
    }
  }
  return {passes.begin(), passes.end()};
}

}  // namespace forerun::cuda
