#include "engine/load/stage_facts.h"

#include "base/status_macros.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {

StageFacts stage_facts(const Decoder& decoder) {
  return {
      .kv_block_bytes = decoder.kv_block_bytes(),
      .quantizes_keys = decoder.quantizes_keys(),
      .selects_kv = decoder.selects_kv(),
      .kv_reads_per_selection = decoder.layers().heads ? decoder.kv_reads_per_selection() : 0.0};
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<StageFacts> auto& facts) {
  visit("bytes of a KV block", facts.kv_block_bytes);
  visit("quantizes keys", facts.quantizes_keys);
  visit("selects KV", facts.selects_kv);
  visit("KV reads per selection", facts.kv_reads_per_selection);
}

Result<std::vector<StageFacts>> gather_stage_facts(Hosts& hosts, const Result<StageFacts>& own) {
  const Result<Bytes> own_report = own.ok() ? Result<Bytes>(to_bytes(*own)) : own.status();
  std::vector<StageFacts> gathered;
  const auto read_reports = [&gathered](const std::vector<Bytes>& reports) -> Result<Bytes> {
    for (const Bytes& report : reports) {
      FORERUN_RETURN_IF_ERROR(from_bytes("stage facts", report, gathered.emplace_back()));
    }
    return Bytes();
  };
  FORERUN_RETURN_IF_ERROR(hosts.settle(own_report, read_reports).status());
  return gathered;
}

}  // namespace forerun
