// Attention of one layer on one GPU, by model shape, context and rows: medians of graph replays of
// a chain of layers, each over a cache of its own, so that keys and values come from memory.
//
//   attention_cuda_bench [--filter TEXT] [--prefill] [--no-clusters] [--json FILE]
//
// Few rows are a tree behind the context; --prefill takes rows that extend it. Beside the time: the
// share of the time that the cache's bytes take at the memory's bandwidth, and for prefill the rate
// of products.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/attention_steps_cuda_test.h"

namespace forerun::cuda {
namespace {

constexpr double kFloorBandwidth = 4.55e12;  // bytes a second that one H200 reads, measured
constexpr int64_t kCacheBytes = int64_t{400} << 20;
constexpr size_t kPartialBytes = size_t{128} << 20;
constexpr int64_t kArrivals = 1 << 16;

struct Model {
  const char* name;
  int32_t heads, kv_heads, head_dim;
};
constexpr Model kModels[] = {{"70b-tp4", 16, 2, 128}, {"8b", 32, 8, 128}, {"1b", 32, 8, 64}};

struct Case {
  Model model;
  int32_t context, rows;
  bool prefill;
};

struct Rows {
  std::vector<AttentionRow> rows;
  std::vector<int32_t> table;
  std::vector<std::vector<int32_t>> ancestors;
};

Rows rows_of(const Case& the) {
  Rows result;
  const int32_t blocks = (the.context + the.rows) / kTilePositions + 1;
  for (int32_t i = 0; i < blocks; ++i) result.table.push_back(i);
  for (int32_t i = 0; i < the.rows; ++i) {
    AttentionRow row{.position = the.context + i,
                     .boundary = the.context + i + 1,
                     .slot = the.context + i,
                     .block_table = result.table.data()};
    if (!the.prefill) {
      std::vector<int32_t> path;
      if (i > 0) path = result.ancestors[static_cast<size_t>((i - 1) / 2)];
      path.push_back(row.slot);
      result.ancestors.push_back(std::move(path));
      row.position = the.context + static_cast<int32_t>(result.ancestors.back().size()) - 1;
      row.boundary = the.context;
      row.ancestors = result.ancestors.back().data();
    }
    result.rows.push_back(row);
  }
  return result;
}

class Bench {
 public:
  static Result<Bench> create(bool clusters) {
    FORERUN_RETURN_IF_ERROR(prepare_attention_cuda());
    Bench bench;
    bench.clusters_ = clusters;
    const auto allocate = [](DeviceBuffer* buffer, size_t bytes, int fill) -> Status {
      FORERUN_ASSIGN_OR_RETURN(*buffer, DeviceBuffer::allocate(bytes, "a bench"));
      FORERUN_CUDA_RETURN_IF_ERROR(cudaMemset(buffer->data(), fill, bytes), "filling");
      return {};
    };
    FORERUN_RETURN_IF_ERROR(allocate(&bench.cache_, kCacheBytes, 0x3c));
    FORERUN_RETURN_IF_ERROR(allocate(&bench.activations_, size_t{64} << 20, 0x3c));
    FORERUN_RETURN_IF_ERROR(allocate(&bench.attended_, size_t{64} << 20, 0));
    FORERUN_RETURN_IF_ERROR(allocate(&bench.partials_, kPartialBytes, 0xff));
    FORERUN_RETURN_IF_ERROR(allocate(&bench.arrivals_, 2 * kArrivals * sizeof(uint32_t), 0));
    FORERUN_RETURN_IF_ERROR(allocate(&bench.failed_, 16, 0));
    FORERUN_RETURN_IF_ERROR(allocate(&bench.step_, size_t{8} << 20, 0));
    FORERUN_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize(), "filling");
    return Result<Bench>(std::move(bench));
  }

  // Microseconds a layer.
  Result<double> time(const Case& the, AttentionPlanCuda* used) {
    const Model& model = the.model;
    const Rows rows = rows_of(the);
    const auto partial_bytes = static_cast<size_t>(
        partial_floats(model.heads, model.kv_heads, model.head_dim) * int64_t{sizeof(float)});
    AttentionPlanCuda& plan = *used;
    plan.build(rows.rows, {.kv_parts = model.kv_heads * query_parts(model.heads, model.kv_heads),
                           .row_columns = query_columns(model.heads, model.kv_heads),
                           .most_partials = static_cast<int32_t>(kPartialBytes / partial_bytes),
                           .may_fuse = true,
                           .may_cluster = clusters_});
    std::vector<int32_t> kv_slots;
    for (const AttentionRow& row : rows.rows) kv_slots.push_back(row.slot);
    const std::vector<float> angles(static_cast<size_t>(the.rows * model.head_dim));
    FORERUN_RETURN_IF_ERROR(step_.upload(step_bytes(plan, kv_slots, angles)));
    PagedKvCuda kv{.num_kv_heads = model.kv_heads, .head_dim = model.head_dim};
    kv.block_stride_bytes = kv.layer_bytes();
    const int64_t layer_bytes = kv.layer_bytes() * static_cast<int64_t>(rows.table.size());
    const int64_t layers = std::clamp<int64_t>(kCacheBytes / layer_bytes, 1, 64);
    const auto width = int64_t{model.heads + 2 * model.kv_heads} * model.head_dim;
    FORERUN_ASSIGN_OR_RETURN(
        Graph graph, Graph::capture(stream_, [&] {
          for (int64_t layer = 0; layer < layers; ++layer) {
            kv.data = cache_.data() + layer * layer_bytes;
            FORERUN_RETURN_IF_ERROR(
                attention_cuda({.step = step_.as<AttentionStepCuda>(),
                                .q = activations_.as<__nv_bfloat16>(),
                                .qkv = activations_.as<__nv_bfloat16>(),
                                .qkv_stride = width,
                                .k_offset = model.heads * model.head_dim,
                                .v_offset = (model.heads + model.kv_heads) * model.head_dim,
                                .attended = attended_.as<uint16_t>(),
                                .attended_stride = int64_t{model.heads} * model.head_dim,
                                .num_heads = model.heads,
                                .kv = kv,
                                .partials = partials_.as<float>(),
                                .arrivals = arrivals_.as<uint32_t>() + layer % 2 * kArrivals,
                                .to_clear = arrivals_.as<uint32_t>() + (layer + 1) % 2 * kArrivals,
                                .failed = failed_.as<uint32_t>(),
                                .early = layer > 1,
                                .mode = plan.mode,
                                .shared_prefix = plan.shared_prefix},
                               stream_.get()));
          }
          return Status();
        }));
    std::vector<double> times;
    for (int replay = 0; replay < 15; ++replay) {
      FORERUN_RETURN_IF_ERROR(start_.record(stream_));
      FORERUN_RETURN_IF_ERROR(graph.launch(stream_));
      FORERUN_RETURN_IF_ERROR(stop_.record(stream_));
      FORERUN_RETURN_IF_ERROR(stop_.synchronize());
      FORERUN_ASSIGN_OR_RETURN(const float ms, stop_.elapsed_ms(start_));
      if (replay >= 2) times.push_back(static_cast<double>(ms) * 1e3);
    }
    std::sort(times.begin(), times.end());
    uint32_t failed = 0;
    FORERUN_RETURN_IF_ERROR(failed_.download(std::as_writable_bytes(std::span(&failed, 1))));
    if (failed != 0) return Status(StatusCode::kInternal, "blocks waited in vain");
    return times[times.size() / 2] / static_cast<double>(layers);
  }

 private:
  Stream stream_ = std::move(Stream::create()).value();
  Event start_ = std::move(Event::create()).value();
  Event stop_ = std::move(Event::create()).value();
  DeviceBuffer cache_, activations_, attended_, partials_, arrivals_, failed_, step_;
  bool clusters_ = true;
};

const char* name_of(AttentionMode mode) {
  return mode == AttentionMode::kWhole   ? "whole"
         : mode == AttentionMode::kTiles ? "tiles"
         : mode == AttentionMode::kSplit ? "split"
         : mode == AttentionMode::kFused ? "fused"
                                         : "cluster";
}

Status run(const std::string& filter, bool prefill, bool clusters, const std::string& json) {
  std::vector<Case> cases;
  for (const Model& model : kModels) {
    if (!filter.empty() && filter != model.name) continue;
    if (prefill) {
      for (const auto& [context, rows] : std::vector<std::pair<int32_t, int32_t>>{
               {0, 256}, {0, 512}, {0, 1024}, {8192, 256}, {8192, 512}, {8192, 1024}}) {
        cases.push_back({model, context, rows, true});
      }
      continue;
    }
    for (const int32_t context : {500, 1000, 8000, 32000}) {
      for (const int32_t rows : {1, 8, 16, 32, 64}) cases.push_back({model, context, rows, false});
    }
  }
  FORERUN_ASSIGN_OR_RETURN(Bench bench, Bench::create(clusters));
  std::FILE* file = json.empty() ? nullptr : std::fopen(json.c_str(), "a");
  for (const Case& the : cases) {
    AttentionPlanCuda plan;
    FORERUN_ASSIGN_OR_RETURN(const double us, bench.time(the, &plan));
    const double pairs =
        static_cast<double>(the.rows) * (the.context + (the.prefill ? the.rows + 1 : 2) / 2.0);
    const double teraflops = 4.0 * pairs * the.model.heads * the.model.head_dim / us * 1e-6;
    const double bytes =
        static_cast<double>(the.context + the.rows) * the.model.kv_heads * the.model.head_dim * 4.0;
    const double floor_us = bytes / kFloorBandwidth * 1e6;
    const std::string figure = std::string("attention alone ") + the.model.name +
                               (the.prefill ? " prefill " : " ") + std::to_string(the.rows) +
                               " rows, context " + std::to_string(the.context);
    std::printf("%-44s %9.2f us, %5.1f%% of bandwidth, %6.1f TFLOP/s (%s%s)\n", figure.c_str(), us,
                floor_us / us * 100, teraflops, name_of(plan.mode),
                plan.shared_prefix == SharedPrefix::kNone     ? ""
                : plan.shared_prefix == SharedPrefix::kNarrow ? ", prefix"
                                                              : ", wide prefix");
    if (file == nullptr) continue;
    std::fprintf(file,
                 "{\"figure\": \"%s\", \"value\": %.3f, \"unit\": \"us\", \"target\": %.3f, "
                 "\"mode\": \"%s\", \"teraflops\": %.2f}\n",
                 figure.c_str(), us, floor_us, name_of(plan.mode), teraflops);
  }
  if (file != nullptr) std::fclose(file);
  return {};
}

}  // namespace
}  // namespace forerun::cuda

int main(int argc, char** argv) {
  std::string filter, json;
  bool prefill = false;
  bool clusters = true;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--filter" && i + 1 < argc) filter = argv[++i];
    if (flag == "--json" && i + 1 < argc) json = argv[++i];
    if (flag == "--prefill") prefill = true;
    if (flag == "--no-clusters") clusters = false;
  }
  const forerun::Status status = forerun::cuda::run(filter, prefill, clusters, json);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
