// Measures the host time of one round's tree operations at 512 nodes.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "tree/token_tree.h"

namespace forerun {
namespace {

// Returns a tree of `size` nodes that grew by expanding the best leaves, 16 children each.
TokenTree make_tree(int32_t size) {
  TokenTree tree(2048);
  std::mt19937 rng(1);
  tree.reset(1, 0, 1 << 20);
  std::vector<NodeId> leaves;
  std::vector<Candidate> candidates(16);
  while (tree.size() < size) {
    tree.best_leaves(8, leaves);
    for (NodeId leaf : leaves) {
      for (Candidate& c : candidates) {
        c = {static_cast<TokenId>(rng() % 8192), -static_cast<float>(rng() % 1000) * 0.004f};
      }
      tree.set_expansion(Role::kDraft, leaf, Expansion::kExpanded);
      tree.add_children(leaf, candidates);
    }
  }
  tree.truncate(size);
  return tree;
}

// Measures one round: best leaves, add, best subgraph, mask, ancestors, walk and reroot. Copying
// the tree back to its start is not counted.
void BM_Round(benchmark::State& state) {
  const auto size = static_cast<int32_t>(state.range(0));
  const auto verified = static_cast<int32_t>(state.range(1));
  const TokenTree start = make_tree(size - 128);
  TokenTree tree = start;
  std::vector<NodeId> leaves, chosen, kept, lists;
  std::vector<int32_t> begins;
  std::vector<uint64_t> bits;
  std::vector<TokenId> path;
  std::vector<Candidate> candidates(16);
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i] = {static_cast<TokenId>(i), -0.3f * static_cast<float>(i)};
  }
  for (auto _ : state) {
    state.PauseTiming();
    tree = start;
    state.ResumeTiming();
    tree.best_leaves(8, leaves);
    for (NodeId leaf : leaves) {
      tree.set_expansion(Role::kDraft, leaf, Expansion::kExpanded);
      tree.add_children(leaf, candidates);
    }
    tree.best_subtree(verified, chosen);
    tree.mask(chosen, bits);
    tree.ancestors(chosen, begins, lists);
    tree.path_tokens(chosen[chosen.size() / 2], path);
    tree.reroot(tree.walk(path), kept);
    benchmark::DoNotOptimize(kept.data());
    benchmark::DoNotOptimize(bits.data());
  }
}
BENCHMARK(BM_Round)->Args({512, 8})->Args({512, 64});

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
