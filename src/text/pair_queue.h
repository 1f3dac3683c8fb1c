// A queue of pairs of neighbouring symbols that may be joined: lowest merge rank first, leftmost
// among equals.
//
// Each rank in the queue has a list of positions. The positions of one rank nearly always arrive
// from left to right; pushing and popping then need no search. Other positions go to a heap beside
// the list, so that no order costs more than O(log n) per pair. One heap over all pairs would
// always cost that, with a cache miss per level: seconds for a word of megabytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace forerun::text {

class PairQueue {
 public:
  struct Pair {
    uint32_t rank;
    int32_t pos;     // position of the pair's left symbol
    int32_t joined;  // the pair's joined token, the same for all pairs of one rank
  };

  // Empties the queue. Ranks pushed from now on must be below `num_ranks`.
  void reset(size_t num_ranks);
  void push(const Pair& pair);
  // Removes and returns the first pair; nothing if the queue is empty.
  std::optional<Pair> pop();

 private:
  struct Bucket {
    uint32_t rank = 0;
    int32_t joined = 0;
    bool is_open = false;           // its rank is in open_
    size_t begin = 0;               // start of the remaining part of in_order
    std::vector<int32_t> in_order;  // ascending
    // A heap, lowest first: positions below the last one of in_order.
    std::vector<int32_t> late;

    void push(int32_t pos);
    int32_t pop();
    bool empty() const { return begin == in_order.size() && late.empty(); }
  };

  std::vector<int32_t> bucket_of_rank_;  // -1: no bucket
  std::vector<Bucket> buckets_;          // the first num_buckets_ are in use; others keep memory
  size_t num_buckets_ = 0;
  std::vector<uint32_t> open_;  // a heap, lowest first: ranks with a non-empty bucket
};

}  // namespace forerun::text
