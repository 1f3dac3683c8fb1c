// The selection of tokens of a paged KV cache to which the rows of an observation window attend
// most (SnapKV, Li et al., 2024, §4), separately for each KV head. It copies their keys and values
// into other KV blocks.
//
// A token's importance is the sum of its softmax probabilities over the window's rows and the query
// heads of the KV head; a query's softmax runs over all tokens that the query attends to.
// Importance is then pooled by the mean of `pooling` neighbours, so that tokens around an important
// token are selected with it. The most important tokens are selected, among equally important
// tokens the earlier ones. They lie in the blocks in sequence order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor_view.h"
#include "device/cpu/team.h"
#include "kernels/attention/attention.h"
#include "kernels/pq_index/pq_index.h"

namespace forerun {

struct KvSelectionCall {
  MatrixView<const float> queries;       // [observers][num_heads * head_dim], rotated
  const int32_t* block_table = nullptr;  // block table of the sequence
  int32_t first_weighed = 0;  // the first observer attends to slots 0 to first_weighed - 1
  int32_t weighed_step = 0;   // 0 or 1: additional slots of each following observer
  int32_t tokens = 0;         // candidates are slots 0 to tokens - 1; at most first_weighed
  int32_t chosen = 0;         // number to select: a multiple of kAttentionTile, at most `tokens`
  int32_t pooling = 1;        // odd
  const int32_t* blocks = nullptr;  // [chosen / kAttentionTile], destination; not in the table
  // If there is an index, select_kv() extends it to `tokens` tokens, a multiple of 64, and takes
  // the scores of these tokens from it instead of from their keys.
  PqIndex index = {};

  int32_t weighed(int64_t observer) const {
    return first_weighed + weighed_step * static_cast<int32_t>(observer);
  }
};

// Scratch memory of one device, for one call at a time.
class KvSelectionScratch {
 public:
  // Makes room for a call; call it outside of a run of the team. Capacity never shrinks.
  void reserve(int32_t team_size, const KvSelectionCall& call, int32_t num_heads,
               const PagedKv& kv);

 private:
  friend void select_kv(const Team& team, const KvSelectionCall& call, const PagedKv& kv,
                        KvSelectionScratch* scratch);
  struct Member {
    std::vector<float> scores;       // [tile][query][64]
    std::vector<std::byte> queries;  // [query], in the layout of the attention kernels
    std::vector<const std::byte*> query_list;
    std::vector<const float*> query_rows;  // [query], as in the call
    std::vector<float> importance;         // [token]
    std::vector<float> pooled;
    std::vector<int32_t> order;
    PqScratch index;
  };
  std::vector<Member> members_;
};

// Collective: selects and copies. The caller syncs before the call (queries must be rotated, all KV
// written) and after it. Members take KV heads; the selection does not depend on the team's size.
void select_kv(const Team& team, const KvSelectionCall& call, const PagedKv& kv,
               KvSelectionScratch* scratch);

// Reference implementation in plain double loops. Returns the pooled importance [kv_head][tokens]
// and copies nothing. If there is an index, it uses the index's keys and does not extend the index.
std::vector<double> kv_importance_ref(const KvSelectionCall& call, const PagedKv& kv);

}  // namespace forerun
