// Measures the host's share of a Step: a verification of 8 rows (edits, composition, sampling over
// a small vocabulary, results) over a decoder that does nothing.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "exec/decoder_step_runner.h"
#include "exec/real_executor.h"
#include "exec/role/step_builder.h"

namespace forerun {
namespace {

class IdleDecoder : public Decoder {
 public:
  IdleDecoder() {
    config_.vocab_size = 64;
    logits_.resize(64 * 512);
  }
  const ModelConfig& config() const override { return config_; }
  int64_t kv_blocks() const override { return 256; }
  int64_t kv_block_bytes() const override { return 1; }
  Status forward(const Step& step) override {
    rows_ = static_cast<int64_t>(step.rows.size());
    return {};
  }
  LogitsPart logits(int32_t) const override { return {{logits_.data(), {rows_, 64}}, 0}; }
  Status move_kv(const StepSequence&, std::span<const KvMove>) override { return {}; }

 private:
  ModelConfig config_;
  std::vector<float> logits_;
  int64_t rows_ = 0;
};

WorkItem tree_item(int32_t rows, int32_t context, NodeId first_node) {
  WorkItem item;
  item.sequence = 1;
  for (int32_t row = 0; row < rows; ++row) {
    WorkRow work;
    work.node = first_node + static_cast<NodeId>(row);
    work.parent = row == 0 ? kNoNode : first_node + static_cast<NodeId>((row - 1) / 2);
    work.position = row == 0 ? context : item.rows[static_cast<size_t>((row - 1) / 2)].position + 1;
    work.want = Want::kSample;
    item.rows.push_back(work);
  }
  return item;
}

// Measures from submission to result; the items exist beforehand.
void submit_to_result(benchmark::State& state) {
  const auto rows = static_cast<int32_t>(state.range(0));
  IdleDecoder decoder;
  auto device = CpuDeviceGroup::create_unpinned({1});
  RealExecutorOptions options;
  options.runners[0] = std::make_unique<DecoderStepRunner>(&decoder, device.value().get(), 64);
  RealExecutor executor(std::move(options));
  SequenceSpec spec;
  spec.sampling.temperature = 0.0f;
  spec.max_tokens = 2000;
  if (!executor.open(1, spec).ok()) state.SkipWithError("open");
  WorkItem prompt;
  prompt.sequence = 1;
  for (int32_t position = 0; position < 1000; ++position) {
    WorkRow row;
    row.position = position;
    prompt.rows.push_back(row);
  }
  executor.submit(prompt);
  executor.next(std::chrono::seconds(1));
  NodeId node = 0;
  for (auto _ : state) {
    WorkItem item = tree_item(rows, 1000, node);
    node += static_cast<NodeId>(rows);
    item.edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {}});
    executor.submit(std::move(item));
    auto result = executor.next(std::chrono::seconds(1));
    if (!result || !result->status.ok()) state.SkipWithError("no result");
    benchmark::DoNotOptimize(result);
  }
}
BENCHMARK(submit_to_result)->Arg(1)->Arg(8)->Arg(64)->Unit(benchmark::kMicrosecond);

// Measures only the building of the Step: slots, ancestors and tasks.
void build_step(benchmark::State& state) {
  const auto rows = static_cast<int32_t>(state.range(0));
  BlockPool pool(256);
  SequenceSpec spec;
  spec.max_tokens = 2000;
  RoleSequence sequence(1, spec, &pool, nullptr, /*head_dim=*/64);
  if (!sequence.kv.reserve(1500).ok()) state.SkipWithError("reserve");
  for (int32_t position = 0; position < 1000; ++position) sequence.kv.append_prefix(0);
  StepBuilder builder(Role::kTarget, 64, nullptr);
  PendingItem item;
  item.item = tree_item(rows, 1000, 0);
  for (auto _ : state) {
    item.rows_done = 0;
    item.result.rows.clear();
    builder.clear();
    const Status status = builder.add(sequence, item, rows);
    if (!status.ok()) state.SkipWithError(status.message().c_str());
    auto built = builder.finish();
    benchmark::DoNotOptimize(built);
    if (!sequence.kv.keep({}).ok()) state.SkipWithError("keep");
  }
}
BENCHMARK(build_step)->Arg(1)->Arg(8)->Arg(64)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
