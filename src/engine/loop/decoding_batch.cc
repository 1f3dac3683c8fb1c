#include "engine/loop/decoding_batch.h"

#include <algorithm>

namespace forerun {

void DecodingBatch::admit(Share& share, int64_t tokens) {
  costs_.admit();
  ++admitted_;
  share.tokens_at_start_ = tokens;
}

int64_t DecodingBatch::count(Share& share, int64_t tokens, bool is_automatic) {
  if (!share.decodes_) {
    if (tokens == share.tokens_at_start_) return 0;
    share.decodes_ = true;
    costs_.join(tokens);
    automatic_sequences_ += is_automatic;
  } else {
    costs_.grow(tokens - share.tokens_);
    if (is_automatic) automatic_tokens_ += tokens - share.tokens_;
  }
  const int64_t before = std::max(share.tokens_, share.tokens_at_start_);
  share.tokens_ = tokens;
  return tokens - before;
}

void DecodingBatch::change_plan(const Share& share, bool was_automatic, bool is_automatic) {
  if (share.decodes_) automatic_sequences_ += is_automatic - was_automatic;
}

void DecodingBatch::retire(Share& share, bool is_automatic) {
  if (share.decodes_) {
    costs_.leave(share.tokens_);
    automatic_sequences_ -= is_automatic;
  }
  costs_.retire();
  --admitted_;
  share.decodes_ = false;
}

void DecodingBatch::note_turn(const WorkResult& result, double seconds) {
  costs_.note_turn(result.role, result.rows.size(), seconds);
  costs_.note_step(result);
}

}  // namespace forerun
