// Measures one forward pass of the demo pair by rows, context and threads, and its linear layers
// alone (packed inputs, no barriers between them). The difference is the cost of attention, norms,
// RoPE and barriers.
//
//   model_bench --benchmark_filter='demo-target/.*/rows:1/'
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/testing.h"

namespace forerun {
namespace {

constexpr int32_t kMaxTokens = 2048;
constexpr int32_t kMaxSequences = 64;
constexpr int32_t kBatchContext = 320;  // tokens of each sequence of a batch

struct Model {
  LoadedDecoder loaded;
  DecoderWeights weights;  // a second copy, for the linear layers alone
};

// Threads of each device.
using Teams = std::vector<int32_t>;

// Returns null (with a message) if the model cannot be loaded.
Model* model(const std::string& name, const Teams& teams) {
  static std::map<std::pair<std::string, Teams>, std::unique_ptr<Model>> models;
  std::unique_ptr<Model>& entry = models[{name, teams}];
  if (entry != nullptr) return entry.get();
  CpuDecoderOptions options;
  options.kv_blocks =
      std::max(kMaxTokens, kMaxSequences * (kBatchContext + kKvBlockTokens)) / kKvBlockTokens;
  auto loaded =
      LoadedDecoder::open(FORERUN_SOURCE_DIR "/models/" + name, teams, std::move(options));
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.status().message().c_str());
    return nullptr;
  }
  entry = std::make_unique<Model>();
  entry->loaded = std::move(*loaded);
  const Checkpoint& checkpoint = *entry->loaded.checkpoint;
  const ShardPlan whole =
      make_shard_plan(checkpoint.config(), 1, checkpoint.config().vocab_size).value();
  auto weights =
      load_decoder_weights(checkpoint, WeightOverride::kAsStored, Activation::kBf16,
                           whole.devices.front(), LayerRange::all(checkpoint.config()), {});
  if (weights.ok()) entry->weights = std::move(*weights);
  return entry.get();
}

void forward(benchmark::State& state, const std::string& name, const Teams& teams, int32_t rows,
             int32_t context) {
  Model* bench_model = model(name, teams);
  if (bench_model == nullptr) return state.SkipWithError("no such model");
  Decoder& decoder = *bench_model->loaded.decoder;
  SequenceDriver sequence(&decoder, SequenceDriver::blocks_for(kMaxTokens));
  std::vector<int32_t> tokens(static_cast<size_t>(context + rows));
  for (size_t index = 0; index < tokens.size(); ++index) {
    tokens[index] = static_cast<int32_t>(index * 37 % 5000 + 100);
  }
  Step prefill;
  prefill.sequences.push_back(sequence.sequence());
  SequenceDriver::add_prefix_rows(prefill, 0, tokens, 0, false);
  Step step;
  step.sequences.push_back(sequence.sequence());
  SequenceDriver::add_prefix_rows(
      step, 0, std::span<const int32_t>(tokens).subspan(static_cast<size_t>(context)), context,
      true);
  if (!decoder.forward(prefill).ok()) return state.SkipWithError("prefill failed");
  for (auto iteration : state) {
    if (!decoder.forward(step).ok()) return state.SkipWithError("forward failed");
  }
  state.counters["tokens/s"] =
      benchmark::Counter(rows, benchmark::Counter::kIsIterationInvariantRate);
}

// Measures a decoding Step of a batch: one row of each of many sequences, with logits of every row.
void batch(benchmark::State& state, const std::string& name, const Teams& teams,
           int32_t sequences) {
  Model* bench_model = model(name, teams);
  if (bench_model == nullptr) return state.SkipWithError("no such model");
  Decoder& decoder = *bench_model->loaded.decoder;
  std::vector<std::unique_ptr<SequenceDriver>> drivers;
  std::vector<int32_t> tokens(kBatchContext + 1);
  for (size_t index = 0; index < tokens.size(); ++index) {
    tokens[index] = static_cast<int32_t>(index * 37 % 5000 + 100);
  }
  Step step;
  for (int32_t sequence_idx = 0; sequence_idx < sequences; ++sequence_idx) {
    constexpr int32_t kBlocks = kBatchContext / kKvBlockTokens + 1;
    drivers.push_back(std::make_unique<SequenceDriver>(
        &decoder, SequenceDriver::blocks_for(kBatchContext + 1, sequence_idx * kBlocks)));
    Step prefill;
    prefill.sequences.push_back(drivers.back()->sequence());
    SequenceDriver::add_prefix_rows(prefill, 0, std::span(tokens).first(kBatchContext), 0, false);
    if (!decoder.forward(prefill).ok()) return state.SkipWithError("prefill failed");
    step.sequences.push_back(drivers.back()->sequence());
    SequenceDriver::add_prefix_rows(step, sequence_idx,
                                    std::span<const int32_t>(tokens).subspan(kBatchContext),
                                    kBatchContext, true);
  }
  for (auto iteration : state) {
    if (!decoder.forward(step).ok()) return state.SkipWithError("forward failed");
  }
  state.counters["tokens/s"] =
      benchmark::Counter(sequences, benchmark::Counter::kIsIterationInvariantRate);
}

void linears(benchmark::State& state, const std::string& name, const Teams& teams, int32_t rows) {
  Model* bench_model = model(name, teams);
  if (bench_model == nullptr) return state.SkipWithError("no such model");
  const ModelConfig& config = bench_model->loaded.checkpoint->config();
  CpuDeviceGroup& devices = *bench_model->loaded.devices;
  const auto buffer = [rows](int64_t width) {
    return std::vector<float>(static_cast<size_t>(rows * width), 0.5f);
  };
  const int64_t q_size = config.num_heads * config.head_dim;
  std::vector<float> hidden = buffer(config.hidden_size), q = buffer(q_size), k = q, v = q,
                     mlp = buffer(config.intermediate_size), logits = buffer(config.vocab_size);
  const auto view = [rows](std::vector<float>& data) {
    return MatrixView<float>(data.data(), {rows, static_cast<int64_t>(data.size()) / rows});
  };
  LinearInput x, attended, inner;
  const Team alone(0, 1, nullptr);
  x.pack(alone, view(hidden), Activation::kBf16);
  attended.pack(alone, view(q), Activation::kBf16);
  inner.pack(alone, view(mlp), Activation::kBf16);
  const auto narrow = [rows](std::vector<float>& data, int64_t width) {
    return MatrixView<float>(data.data(), {rows, width});
  };
  for (auto iteration : state) {
    const Status status = devices.run([&](const GroupMember& member) {
      const Team& team = member.team;
      for (const LayerWeights& layer : bench_model->weights.layers) {
        linear(team, layer.q, x, view(q));
        linear(team, layer.k, x, narrow(k, layer.k.out_features()));
        linear(team, layer.v, x, narrow(v, layer.v.out_features()));
        linear(team, layer.o, attended, view(hidden));
        gate_up_swiglu(team, layer.gate, layer.up, x, {}, {}, view(mlp));
        linear(team, layer.down, inner, view(hidden));
      }
      linear(team, bench_model->weights.head, x, view(logits));
    });
    if (!status.ok()) return state.SkipWithError("run failed");
  }
}

void register_all() {
  for (const std::string name : {"demo-target", "demo-draft"}) {
    // Runs one device with one thread and with two, and two devices with one.
    for (const auto& [teams_name, teams] : std::initializer_list<std::pair<std::string, Teams>>{
             {"1", {1}}, {"2", {2}}, {"1+1", {1, 1}}}) {
      const std::string prefix = name + "/threads:" + teams_name;
      for (const int32_t rows : {1, 2, 4, 8, 16, 64, 512}) {
        const std::string at_rows = "/rows:" + std::to_string(rows);
        if (teams.size() == 1) {
          benchmark::RegisterBenchmark((prefix + at_rows + "/linears").c_str(), linears, name,
                                       teams, rows)
              ->Unit(benchmark::kMillisecond)
              ->UseRealTime();
        }
        for (const int32_t context : {0, 500}) {
          benchmark::RegisterBenchmark(
              (prefix + at_rows + "/context:" + std::to_string(context)).c_str(), forward, name,
              teams, rows, context)
              ->Unit(benchmark::kMillisecond)
              ->UseRealTime();
        }
      }
      for (const int32_t sequences : {1, 4, 16, kMaxSequences}) {
        benchmark::RegisterBenchmark((prefix + "/sequences:" + std::to_string(sequences)).c_str(),
                                     batch, name, teams, sequences)
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      }
    }
  }
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  forerun::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
