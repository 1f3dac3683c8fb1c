#include "engine/loop/sequence_specs.h"

#include <algorithm>
#include <cstdint>

#include "strategies/speculation_plan.h"

namespace forerun {
namespace {

// Returns the number of KV blocks that the request takes for its view beside its text.
int64_t view_blocks_of(const ActiveRequest& request) {
  const KvViewSpec& view = request.plan().view;
  if (view.kind == nullptr) return 0;
  const auto& head_dim = request.plan().models.head_dim;
  return view.kind->own_blocks(view.budget,
                               {.tokens = static_cast<int32_t>(request.tokens().size()),
                                .head_dim = *std::min_element(head_dim.begin(), head_dim.end())});
}

}  // namespace

KvReservations::Claim SequenceSpecs::claim(const ActiveRequest& request) {
  return {request.tokens(), shares(request), salts_.number(request.request().cache_salt),
          view_blocks_of(request)};
}

SequenceSpec SequenceSpecs::spec(const ScheduledRequest& running) {
  const ActiveRequest& request = *running.request;
  SequenceSpec spec;
  spec.sampling = request.sampling();
  if (!request.wants_scores()) spec.sampling.prompt_logprobs = -1;
  spec.prompt_tokens = request.prompt_size();
  spec.max_tokens = request.max_tokens();
  spec.share_prefix = shares(request);
  spec.prefix_salt = salts_.number(request.request().cache_salt);
  spec.priority = running.level;
  spec.constraint = request.constraint();
  return spec;
}

}  // namespace forerun
