// Facts that an engine needs about a stage's decoder, which may be in another process of a launch.
#pragma once

#include <cstdint>
#include <vector>

#include "forerun/status.h"
#include "hosts/hosts.h"
#include "model/decoder.h"

namespace forerun {

struct StageFacts {
  int64_t kv_block_bytes = 0;
  bool quantizes_keys = false;
  bool selects_kv = false;
  double kv_reads_per_selection = 0.0;  // 0 for a stage without the LM head
};

StageFacts stage_facts(const Decoder& decoder);

// Gathers facts in one round of a launch (Hosts::settle); every process calls it. A stage sends
// `own`; the coordinator's `own` says only whether it can go on. Returns the facts of all stages,
// in order, on the coordinator, and nothing in a stage's process. If `own` of any process is a
// failure, all processes fail with it. Fails with kCorrupt if a report cannot be read.
Result<std::vector<StageFacts>> gather_stage_facts(Hosts& hosts, const Result<StageFacts>& own);

}  // namespace forerun
