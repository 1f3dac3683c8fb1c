#include "engine/load/stage_facts.h"

#include "base/status_macros.h"
#include "hosts/bytes.h"

namespace forerun {

StageFacts stage_facts(const Decoder& decoder) {
  return {
      .kv_block_bytes = decoder.kv_block_bytes(),
      .quantizes_keys = decoder.quantizes_keys(),
      .selects_kv = decoder.selects_kv(),
      .kv_reads_per_selection = decoder.layers().heads ? decoder.kv_reads_per_selection() : 0.0};
}

namespace {

Bytes write_stage_facts(const StageFacts& facts) {
  Bytes bytes;
  ByteWriter to(&bytes);
  to.number(facts.kv_block_bytes);
  to.flag(facts.quantizes_keys);
  to.flag(facts.selects_kv);
  to.number(facts.kv_reads_per_selection);
  return bytes;
}

Result<StageFacts> read_stage_facts(const Bytes& bytes) {
  ByteReader from(bytes);
  StageFacts facts;
  facts.kv_block_bytes = from.number<int64_t>("bytes of a KV block");
  facts.quantizes_keys = from.flag("quantizes keys");
  facts.selects_kv = from.flag("selects KV");
  facts.kv_reads_per_selection = from.number<double>("KV reads per selection");
  FORERUN_RETURN_IF_ERROR(from.finish());
  return facts;
}

}  // namespace

Result<std::vector<StageFacts>> gather_stage_facts(Hosts& hosts, const Result<StageFacts>& own) {
  const Result<Bytes> own_report = own.ok() ? Result<Bytes>(write_stage_facts(*own)) : own.status();
  std::vector<StageFacts> gathered;
  const auto read_reports = [&gathered](const std::vector<Bytes>& reports) -> Result<Bytes> {
    for (const Bytes& report : reports) {
      FORERUN_ASSIGN_OR_RETURN(gathered.emplace_back(), read_stage_facts(report));
    }
    return Bytes();
  };
  FORERUN_RETURN_IF_ERROR(hosts.settle(own_report, read_reports).status());
  return gathered;
}

}  // namespace forerun
