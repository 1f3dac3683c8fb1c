// Checks that a round of tree operations allocates nothing in the steady state.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#include "tree/token_tree.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

// Replaces all forms of the global allocator, so that sanitizers see matching pairs.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new[](std::size_t size) { return operator new(size); }
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept {
  return operator new(size, tag);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace forerun {
namespace {

struct Buffers {
  std::vector<NodeId> leaves, chosen, kept, lists;
  std::vector<int32_t> begins;
  std::vector<uint64_t> bits;
  std::vector<TokenId> path;
  std::vector<Candidate> candidates = std::vector<Candidate>(16);

  // Reserves room for the deepest possible tree, since the depth is random.
  Buffers() {
    for (auto* nodes : {&leaves, &chosen, &kept, &lists}) nodes->reserve(1 << 16);
    begins.reserve(1 << 10);
    bits.reserve(1 << 12);
    path.reserve(1 << 10);
  }
};

// Plays one round at about `size` nodes: grows, chooses, masks, walks and reroots the tree;
// restarts it where a miss would.
void play_round(TokenTree& tree, Buffers& b, std::mt19937& rng, int32_t size) {
  while (tree.size() < size) {
    tree.best_leaves(8, b.leaves);
    if (b.leaves.empty()) break;
    for (NodeId leaf : b.leaves) {
      for (size_t i = 0; i < b.candidates.size(); ++i) {
        b.candidates[i] = {static_cast<TokenId>(rng() % 1000),
                           -static_cast<float>(rng() % 1000) * 0.004f};
      }
      tree.set_expansion(Role::kDraft, leaf, Expansion::kExpanded);
      tree.add_children(leaf, b.candidates);
    }
  }
  tree.best_subtree(32, b.chosen);
  tree.mask(b.chosen, b.bits);
  tree.ancestors(b.chosen, b.begins, b.lists);
  const NodeId target = b.chosen[rng() % b.chosen.size()];
  tree.path_tokens(target, b.path);
  // The walk may end elsewhere if an ancestor has a sibling with the same token.
  const NodeId reached = tree.walk(b.path);
  tree.reroot(reached == kNoNode ? target : reached, b.kept);
  tree.nodes_with_kv(Role::kDraft, b.kept);
  if (rng() % 3 == 0) tree.reset(1, 0, 1 << 20);
}

TEST(TokenTreeAllocation, NoneInTheSteadyState) {
  TokenTree tree(1024);
  tree.reset(1, 0, 1 << 20);
  Buffers buffers;
  std::mt19937 rng(5);
  for (int round = 0; round < 200; ++round) play_round(tree, buffers, rng, 512);
  const long before = allocations.load();
  ASSERT_GT(before, 0) << "the counter does not count";
  for (int round = 0; round < 2000; ++round) play_round(tree, buffers, rng, 512);
  EXPECT_EQ(allocations.load() - before, 0);
}

}  // namespace
}  // namespace forerun
