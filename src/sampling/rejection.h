// Speculative sampling by rejection: accepts draft tokens such that the output has the same
// distribution as the target's own samples. Chains use the rule of Leviathan et al. (2023). Several
// children, drawn independently from the draft, use SpecInfer's multi-round rule (Miao et al.,
// 2024): they are tried in order, and after each rejection the target's distribution p becomes
// norm(max(p - q, 0)). A token that was drawn several times must be listed that many times.
//
// For greedy requests, a child is accepted if it is the target's arg-max.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/status.h"
#include "sampling/logits_processor.h"
#include "sampling/sampler.h"
#include "step/types.h"

namespace forerun {

struct RejectionOutcome {
  int32_t child_idx = -1;  // the accepted child, or -1
  TokenId token = -1;      // the accepted child's token, or the one sampled instead
};

// Decides one node. `logits` are the target's after the node, `context.position` is the position of
// its children; `children` are their tokens in the order in which they were drawn; `draft` is the
// distribution that they were drawn from (may be null if there are no children or the request is
// greedy). Acceptance tests use NoiseStream::kAcceptance at (position, number of the child), the
// token sampled instead uses NoiseStream::kResidual. Fails as process_logits() does, and with
// kInternal if `draft` is missing or has another vocabulary. `logits` may be a device's part of the
// row, as in sampler.h; `draft` is the whole distribution.
Status accept_child(const LogitsRow& logits, const RowContext& context,
                    std::span<const TokenId> children, const DraftDistribution* draft,
                    SamplerScratch& scratch, RejectionOutcome* out);

}  // namespace forerun
