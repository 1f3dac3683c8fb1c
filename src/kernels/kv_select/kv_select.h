// Chooses tokens of a paged KV cache by the attention that the rows of an observation window pay
// them (SnapKV, Li et al., 2024, §4), for each KV head by itself, and gathers their keys and values
// in blocks of their own.
//
// A token's importance is the weight that it has in the softmax of each of the window's queries,
// over all tokens that the query weighs, summed over the window's rows and the query heads of its
// KV head. Pooled, by the mean of `pooling` neighbours, so that what stands around an important
// token is chosen with it. The most important tokens are taken, of equals the earlier ones, and lie
// in the blocks in the order of the text.
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
  const int32_t* block_table = nullptr;  // of the sequence that is chosen from
  int32_t first_weighed = 0;  // slots 0 to first_weighed - 1 of it the first observer weighs
  int32_t weighed_step = 0;   // 0 or 1: each further one so many more
  int32_t tokens = 0;         // the choice is among slots 0 to tokens - 1; at most first_weighed
  int32_t chosen = 0;         // so many: a multiple of kAttentionTile, at most `tokens`
  int32_t pooling = 1;        // odd
  const int32_t* blocks = nullptr;  // [chosen / kAttentionTile], none of them in the table
  // Where there is one, it is brought up to `tokens`, a multiple of 64, and says what the queries
  // think of these, in place of their keys.
  PqIndex index = {};

  int32_t weighed(int64_t observer) const {
    return first_weighed + weighed_step * static_cast<int32_t>(observer);
  }
};

// Scratch of one device; for one call at a time.
class KvSelectionScratch {
 public:
  // Outside of a run. Keeps its memory.
  void reserve(int32_t team_size, const KvSelectionCall& call, int32_t num_heads,
               const PagedKv& kv);

 private:
  friend void select_kv(const Team& team, const KvSelectionCall& call, const PagedKv& kv,
                        KvSelectionScratch* scratch);
  struct Member {
    std::vector<float> scores;       // [tile][query][64]
    std::vector<std::byte> queries;  // [query], as attention's kernels want them
    std::vector<const std::byte*> query_list;
    std::vector<const float*> query_rows;  // [query], as they came
    std::vector<float> importance;         // [token]
    std::vector<float> pooled;
    std::vector<int32_t> order;
    PqScratch index;
  };
  std::vector<Member> members_;
};

// Collective. The caller syncs before (queries rotated, all KV written) and after. Members take KV
// heads; what is chosen does not depend on the team.
void select_kv(const Team& team, const KvSelectionCall& call, const PagedKv& kv,
               KvSelectionScratch* scratch);

// Reference twin: plain loops in double. Pooled importance [kv_head][tokens]; copies nothing. Of an
// index, it takes the keys that are in it, and does not bring it up to date.
std::vector<double> kv_importance_ref(const KvSelectionCall& call, const PagedKv& kv);

}  // namespace forerun
