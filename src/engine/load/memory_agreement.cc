#include "engine/load/memory_agreement.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/status_macros.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {
namespace {

// The part of the memory plan that the processes agree on.
struct PlannedRoom {
  int32_t max_context_tokens = 0;
  int64_t target_blocks = 0;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<PlannedRoom> auto& room) {
  visit("context", room.max_context_tokens);
  visit("KV blocks", room.target_blocks);
  if (room.max_context_tokens < 1 || room.target_blocks < 1) visit.fail("size", "found none");
}

PlannedRoom room_of(const MemoryPlan& plan) {
  return {.max_context_tokens = plan.max_context_tokens, .target_blocks = plan.target_blocks};
}

}  // namespace

Result<MemoryPlan> agree_on_memory(Hosts& hosts, const Result<MemoryPlan>& own) {
  const Result<Bytes> own_report = own.ok() ? Result<Bytes>(to_bytes(room_of(*own))) : own.status();
  const auto take_least = [&own](const std::vector<Bytes>& reports) -> Result<Bytes> {
    PlannedRoom least = room_of(*own);
    for (const Bytes& report : reports) {
      PlannedRoom room;
      FORERUN_RETURN_IF_ERROR(from_bytes("memory plan", report, room));
      least.max_context_tokens = std::min(least.max_context_tokens, room.max_context_tokens);
      least.target_blocks = std::min(least.target_blocks, room.target_blocks);
    }
    return to_bytes(least);
  };
  FORERUN_ASSIGN_OR_RETURN(const Bytes settled, hosts.settle(own_report, take_least));
  PlannedRoom least;
  FORERUN_RETURN_IF_ERROR(from_bytes("memory plan", settled, least));
  MemoryPlan plan = *own;
  plan.max_context_tokens = least.max_context_tokens;
  plan.target_blocks = least.target_blocks;
  const bool has_draft = plan.draft_blocks > 0;
  if (has_draft && plan.draft_window == 0) plan.draft_blocks = plan.target_blocks;
  return plan;
}

}  // namespace forerun
