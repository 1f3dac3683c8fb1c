// Pairs of neighbouring symbols that may be joined, lowest merge rank first, leftmost among equals.
//
// A list of positions for each rank that is there. Positions of one rank come nearly always from
// left to right, then pushing and popping cost no search; those that do not go to a heap beside
// the list, so that no order costs more than O(log n) a pair. One heap over all pairs costs that
// always, and a cache miss a level: seconds for a word of megabytes.
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
    int32_t pos;     // of its left symbol
    int32_t joined;  // the same for all of one rank
  };

  // Empties it. Ranks pushed from now on are below `num_ranks`.
  void reset(size_t num_ranks);
  void push(const Pair& pair);
  // The first one, taken out; nothing where there is none.
  std::optional<Pair> pop();

 private:
  struct Bucket {
    uint32_t rank = 0;
    int32_t joined = 0;
    bool is_open = false;           // its rank is in open_
    size_t begin = 0;               // of what is left of in_order
    std::vector<int32_t> in_order;  // ascending
    std::vector<int32_t> late;      // a heap, lowest first: what came below in_order's last

    void push(int32_t pos);
    int32_t pop();
    bool empty() const { return begin == in_order.size() && late.empty(); }
  };

  std::vector<int32_t> bucket_of_rank_;  // -1: none
  std::vector<Bucket> buckets_;          // the first num_buckets_ are in use; others keep memory
  size_t num_buckets_ = 0;
  std::vector<uint32_t> open_;  // a heap, lowest first: ranks whose bucket holds something
};

}  // namespace forerun::text
