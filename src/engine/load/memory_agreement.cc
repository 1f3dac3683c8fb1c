#include "engine/load/memory_agreement.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/status_macros.h"
#include "hosts/bytes.h"

namespace forerun {
namespace {

// What the processes agree on.
struct PlannedRoom {
  int32_t max_context_tokens = 0;
  int64_t target_blocks = 0;
};

Bytes write_room(const PlannedRoom& room) {
  Bytes bytes;
  ByteWriter to(&bytes);
  to.number(room.max_context_tokens);
  to.number(room.target_blocks);
  return bytes;
}

Result<PlannedRoom> read_room(const Bytes& bytes) {
  ByteReader from(bytes);
  PlannedRoom room;
  room.max_context_tokens = from.number<int32_t>("context");
  room.target_blocks = from.number<int64_t>("KV blocks");
  if (room.max_context_tokens < 1 || room.target_blocks < 1) {
    from.fail("memory plan", "found none");
  }
  FORERUN_RETURN_IF_ERROR(from.finish());
  return room;
}

PlannedRoom room_of(const MemoryPlan& plan) {
  return {.max_context_tokens = plan.max_context_tokens, .target_blocks = plan.target_blocks};
}

}  // namespace

Result<MemoryPlan> agree_on_memory(Hosts& hosts, const Result<MemoryPlan>& own) {
  const Result<Bytes> own_report =
      own.ok() ? Result<Bytes>(write_room(room_of(*own))) : own.status();
  const auto take_least = [&own](const std::vector<Bytes>& reports) -> Result<Bytes> {
    PlannedRoom least = room_of(*own);
    for (const Bytes& report : reports) {
      FORERUN_ASSIGN_OR_RETURN(const PlannedRoom room, read_room(report));
      least.max_context_tokens = std::min(least.max_context_tokens, room.max_context_tokens);
      least.target_blocks = std::min(least.target_blocks, room.target_blocks);
    }
    return write_room(least);
  };
  FORERUN_ASSIGN_OR_RETURN(const Bytes settled, hosts.settle(own_report, take_least));
  FORERUN_ASSIGN_OR_RETURN(const PlannedRoom least, read_room(settled));
  MemoryPlan plan = *own;
  plan.max_context_tokens = least.max_context_tokens;
  plan.target_blocks = least.target_blocks;
  const bool has_draft = plan.draft_blocks > 0;
  if (has_draft && plan.draft_window == 0) plan.draft_blocks = plan.target_blocks;
  return plan;
}

}  // namespace forerun
