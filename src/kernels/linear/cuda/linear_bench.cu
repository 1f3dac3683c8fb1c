// Measures linear layers of real models inside a CUDA graph, against the time of the weight's bytes
// at the memory's bandwidth, or of its products at the matrix rate.
//
//   linear_cuda_bench [--rows 8,16,32] [--filter TEXT] [--splits] [--forwards] [--norm]
//                     [--json FILE]
//
// Per layer: a graph of launches of one shape over distinct weights (together several times the
// L2), each dependent on the one before; the median of replays over the number of launches.
// --splits tries every split of the shape. --forwards runs all linear layers of a model in order
// with stand-ins of fixed duration for attention and all-reduce, a kernel each. --norm adds the
// residual and the norms: O and down write the factors by which QKV, gate and up, and the head then
// scale.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "device/cuda/cuda_devices.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_stream.h"
#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/linear.h"

namespace forerun::cuda {
namespace {

// Measured on one H200: read bandwidth in bytes per second; operations per second of PyTorch's bf16
// product of 8,192 x 8,192 matrices.
constexpr double kFloorBandwidth = 4.55e12;
constexpr double kFloorMatrixRate = 790e12;

// Returns the least time of a layer: the longer of reading its weights once and of its products at
// the matrix rate.
double floor_us(const LinearPlan& plan, int rows) {
  const double bytes = static_cast<double>(plan.weight_bytes());
  const double operations =
      2.0 * static_cast<double>(plan.in_features) * static_cast<double>(plan.out_features) * rows;
  return 1e6 * std::max(bytes / kFloorBandwidth, operations / kFloorMatrixRate);
}

// Fills weights with bits that are harmless as either format: nibbles and mantissas random, bf16
// exponents and f16 scales small.
__global__ void fill_kernel(uint32_t* words, size_t count, uint32_t seed, int unit_words,
                            int quant_words) {
  const bool bf16 = unit_words == quant_words;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<size_t>(gridDim.x) * blockDim.x) {
    uint32_t h = static_cast<uint32_t>(i) * 0x9e3779b9u + seed;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    h ^= h >> 16;
    const bool scale = !bf16 && static_cast<int>(i % unit_words) >= quant_words;
    words[i] = bf16 || scale ? (h & 0x80ff80ffu) | (scale ? 0x10001000u : 0x3c003c00u) : h;
  }
}

__global__ void delay_kernel(int nanoseconds) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  launch_dependents();
  wait_for_previous_kernel();
#endif
  if (threadIdx.x != 0) return;
  const long long start = clock64();
  while (clock64() - start < static_cast<long long>(nanoseconds) * 1755 / 1000) {
  }
}

Status submit_delay(int nanoseconds, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(132);
  config.blockDim = dim3(32);
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaLaunchKernelEx(&config, delay_kernel, nanoseconds),
                               "launching a delay");
  return {};
}

struct Layer {
  const char* model;
  const char* name;
  LinearFormat format;
  int64_t in, out;
  bool gated;
};

constexpr LinearFormat kQ4 = LinearFormat::kInt4Group128;
constexpr LinearFormat kQ8 = LinearFormat::kInt8Group64;
constexpr LinearFormat kB16 = LinearFormat::kBf16;
constexpr LinearFormat kGguf80 = LinearFormat::kQ8_0;
constexpr LinearFormat kGguf40 = LinearFormat::kQ4_0;
constexpr LinearFormat kGguf41 = LinearFormat::kQ4_1;
constexpr LinearFormat kGguf4K = LinearFormat::kQ4_K;
constexpr LinearFormat kGguf5K = LinearFormat::kQ5_K;
constexpr LinearFormat kGguf6K = LinearFormat::kQ6_K;
constexpr LinearFormat kGguf50 = LinearFormat::kQ5_0;
constexpr LinearFormat kGguf51 = LinearFormat::kQ5_1;
constexpr LinearFormat kGgufNl = LinearFormat::kIq4Nl;
constexpr LinearFormat kGgufXs = LinearFormat::kIq4Xs;
constexpr LinearFormat kGguf3K = LinearFormat::kQ3_K;
constexpr LinearFormat kGguf2K = LinearFormat::kQ2_K;
constexpr LinearFormat kMx4 = LinearFormat::kMxfp4;
constexpr LinearFormat kFp8 = LinearFormat::kFp8;
constexpr Layer kLayers[] = {
    {"70b-tp4-int4", "qkv", kQ4, 8192, 2560, false},
    {"70b-tp4-int4", "o", kQ4, 2048, 8192, false},
    {"70b-tp4-int4", "gate_up", kQ4, 8192, 14336, true},
    {"70b-tp4-int4", "down", kQ4, 7168, 8192, false},
    {"70b-tp3-int4", "qkv", kQ4, 8192, 3840, false},
    {"70b-tp3-int4", "o", kQ4, 3072, 8192, false},
    {"70b-tp3-int4", "gate_up", kQ4, 8192, 19200, true},
    {"70b-tp3-int4", "down", kQ4, 9600, 8192, false},
    {"70b-tp2-int4", "qkv", kQ4, 8192, 5120, false},
    {"70b-tp2-int4", "o", kQ4, 4096, 8192, false},
    {"70b-tp2-int4", "gate_up", kQ4, 8192, 28672, true},
    {"70b-tp2-int4", "down", kQ4, 14336, 8192, false},
    {"8b-int4", "qkv", kQ4, 4096, 6144, false},
    {"8b-int4", "o", kQ4, 4096, 4096, false},
    {"8b-int4", "gate_up", kQ4, 4096, 28672, true},
    {"8b-int4", "down", kQ4, 14336, 4096, false},
    {"3b-int4", "qkv", kQ4, 3072, 5120, false},
    {"3b-int4", "o", kQ4, 3072, 3072, false},
    {"3b-int4", "gate_up", kQ4, 3072, 16384, true},
    {"3b-int4", "down", kQ4, 8192, 3072, false},
    {"1b-int4", "qkv", kQ4, 2048, 3072, false},
    {"1b-int4", "o", kQ4, 2048, 2048, false},
    {"1b-int4", "gate_up", kQ4, 2048, 16384, true},
    {"1b-int4", "down", kQ4, 8192, 2048, false},
    {"1b-bf16", "qkv", kB16, 2048, 3072, false},
    {"1b-bf16", "o", kB16, 2048, 2048, false},
    {"1b-bf16", "gate_up", kB16, 2048, 16384, true},
    {"1b-bf16", "down", kB16, 8192, 2048, false},
    {"8b-bf16", "qkv", kB16, 4096, 6144, false},
    {"8b-bf16", "o", kB16, 4096, 4096, false},
    {"8b-bf16", "gate_up", kB16, 4096, 28672, true},
    {"8b-bf16", "down", kB16, 14336, 4096, false},
    {"8b-bf16", "head", kB16, 4096, 128256, false},
    {"8b-q8_0", "qkv", kGguf80, 4096, 6144, false},
    {"8b-q8_0", "o", kGguf80, 4096, 4096, false},
    {"8b-q8_0", "gate_up", kGguf80, 4096, 28672, true},
    {"8b-q8_0", "down", kGguf80, 14336, 4096, false},
    {"8b-q8_0", "head", kGguf80, 4096, 128256, false},
    {"8b-fp8", "qkv", kFp8, 4096, 6144, false},
    {"8b-fp8", "o", kFp8, 4096, 4096, false},
    {"8b-fp8", "gate_up", kFp8, 4096, 28672, true},
    {"8b-fp8", "down", kFp8, 14336, 4096, false},
    {"8b-q4_k", "qkv", kGguf4K, 4096, 6144, false},
    {"8b-q4_k", "o", kGguf4K, 4096, 4096, false},
    {"8b-q4_k", "gate_up", kGguf4K, 4096, 28672, true},
    {"8b-q4_k", "down", kGguf4K, 14336, 4096, false},
    {"8b-q4_0", "qkv", kGguf40, 4096, 6144, false},
    {"8b-q4_0", "o", kGguf40, 4096, 4096, false},
    {"8b-q4_0", "gate_up", kGguf40, 4096, 28672, true},
    {"8b-q4_0", "down", kGguf40, 14336, 4096, false},
    {"8b-q4_1", "qkv", kGguf41, 4096, 6144, false},
    {"8b-q4_1", "o", kGguf41, 4096, 4096, false},
    {"8b-q4_1", "gate_up", kGguf41, 4096, 28672, true},
    {"8b-q4_1", "down", kGguf41, 14336, 4096, false},
    {"8b-q5_k", "qkv", kGguf5K, 4096, 6144, false},
    {"8b-q5_k", "o", kGguf5K, 4096, 4096, false},
    {"8b-q5_k", "gate_up", kGguf5K, 4096, 28672, true},
    {"8b-q5_k", "down", kGguf5K, 14336, 4096, false},
    {"8b-q6_k", "qkv", kGguf6K, 4096, 6144, false},
    {"8b-q6_k", "o", kGguf6K, 4096, 4096, false},
    {"8b-q6_k", "gate_up", kGguf6K, 4096, 28672, true},
    {"8b-q6_k", "down", kGguf6K, 14336, 4096, false},
    {"8b-q6_k", "head", kGguf6K, 4096, 128256, false},
    {"8b-q5_0", "qkv", kGguf50, 4096, 6144, false},
    {"8b-q5_0", "o", kGguf50, 4096, 4096, false},
    {"8b-q5_0", "gate_up", kGguf50, 4096, 28672, true},
    {"8b-q5_0", "down", kGguf50, 14336, 4096, false},
    {"8b-q5_1", "qkv", kGguf51, 4096, 6144, false},
    {"8b-q5_1", "o", kGguf51, 4096, 4096, false},
    {"8b-q5_1", "gate_up", kGguf51, 4096, 28672, true},
    {"8b-q5_1", "down", kGguf51, 14336, 4096, false},
    {"8b-iq4_nl", "qkv", kGgufNl, 4096, 6144, false},
    {"8b-iq4_nl", "o", kGgufNl, 4096, 4096, false},
    {"8b-iq4_nl", "gate_up", kGgufNl, 4096, 28672, true},
    {"8b-iq4_nl", "down", kGgufNl, 14336, 4096, false},
    {"8b-iq4_xs", "qkv", kGgufXs, 4096, 6144, false},
    {"8b-iq4_xs", "o", kGgufXs, 4096, 4096, false},
    {"8b-iq4_xs", "gate_up", kGgufXs, 4096, 28672, true},
    {"8b-iq4_xs", "down", kGgufXs, 14336, 4096, false},
    {"8b-mxfp4", "qkv", kMx4, 4096, 6144, false},
    {"8b-mxfp4", "o", kMx4, 4096, 4096, false},
    {"8b-mxfp4", "gate_up", kMx4, 4096, 28672, true},
    {"8b-mxfp4", "down", kMx4, 14336, 4096, false},
    {"8b-q3_k", "qkv", kGguf3K, 4096, 6144, false},
    {"8b-q3_k", "o", kGguf3K, 4096, 4096, false},
    {"8b-q3_k", "gate_up", kGguf3K, 4096, 28672, true},
    {"8b-q3_k", "down", kGguf3K, 14336, 4096, false},
    {"8b-q2_k", "qkv", kGguf2K, 4096, 6144, false},
    {"8b-q2_k", "o", kGguf2K, 4096, 4096, false},
    {"8b-q2_k", "gate_up", kGguf2K, 4096, 28672, true},
    {"8b-q2_k", "down", kGguf2K, 14336, 4096, false},
    {"gpt-oss-mxfp4", "gate_up", kMx4, 2880, 5760, true},
    {"gpt-oss-mxfp4", "down", kMx4, 2880, 2880, false},
    {"gpt-oss-mxfp4", "gate_up_32", kMx4, 2880, 184320, true},
    {"gpt-oss-mxfp4", "down_32", kMx4, 2880, 92160, false},
    {"8b-int4", "head-int8", kQ8, 4096, 128256, false},
    {"70b-tp4-int4", "head-bf16", kB16, 8192, 32064, false},
    {"70b-tp4-int4", "head-int8", kQ8, 8192, 32064, false},
};

struct Model {
  const char* name;
  int layers;
  int attention_ns, all_reduce_ns;
};
constexpr Model kModels[] = {
    {"70b-tp4-int4", 80, 2000, 1500}, {"8b-int4", 32, 2000, 0},   {"3b-int4", 28, 2000, 0},
    {"1b-int4", 16, 2000, 0},         {"1b-bf16", 16, 2000, 0},   {"8b-bf16", 32, 2000, 0},
    {"8b-q8_0", 32, 2000, 0},         {"8b-fp8", 32, 2000, 0},    {"8b-q4_k", 32, 2000, 0},
    {"8b-q4_0", 32, 2000, 0},         {"8b-q4_1", 32, 2000, 0},   {"8b-q5_k", 32, 2000, 0},
    {"8b-q6_k", 32, 2000, 0},         {"8b-q5_0", 32, 2000, 0},   {"8b-q5_1", 32, 2000, 0},
    {"8b-iq4_nl", 32, 2000, 0},       {"8b-iq4_xs", 32, 2000, 0}, {"8b-mxfp4", 32, 2000, 0},
    {"8b-q3_k", 32, 2000, 0},         {"8b-q2_k", 32, 2000, 0}};

class Bench {
 public:
  static Result<Bench> create() {
    FORERUN_RETURN_IF_ERROR(prepare_linear_cuda());
    FORERUN_CUDA_RETURN_IF_ERROR(
        cudaFuncSetAttribute(delay_kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "loading the delay");
    FORERUN_ASSIGN_OR_RETURN(Stream stream, Stream::create());
    FORERUN_ASSIGN_OR_RETURN(Event start, Event::create());
    FORERUN_ASSIGN_OR_RETURN(Event stop, Event::create());
    FORERUN_ASSIGN_OR_RETURN(DeviceBuffer input,
                             DeviceBuffer::allocate(kActivationBytes, "activations"));
    FORERUN_ASSIGN_OR_RETURN(DeviceBuffer output,
                             DeviceBuffer::allocate(kOutputBytes, "activations"));
    FORERUN_ASSIGN_OR_RETURN(DeviceBuffer scaled,
                             DeviceBuffer::allocate(kActivationBytes, "activations"));
    FORERUN_ASSIGN_OR_RETURN(DeviceBuffer squares,
                             DeviceBuffer::allocate(kActivationBytes, "sums of squares"));
    FORERUN_ASSIGN_OR_RETURN(LinearScratchBuffer scratch, LinearScratchBuffer::allocate());
    fill_kernel<<<264, 256, 0, stream.get()>>>(input.as<uint32_t>(), kActivationBytes / 4, 1, 1, 1);
    FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "filling activations");
    FORERUN_RETURN_IF_ERROR(stream.synchronize());
    return Result<Bench>(Bench(std::move(stream), std::move(start), std::move(stop),
                               std::move(input), std::move(output), std::move(scaled),
                               std::move(squares), std::move(scratch)));
  }

  Result<LinearWeightCuda> make_weight(const LinearPlan& plan, uint32_t seed) {
    FORERUN_ASSIGN_OR_RETURN(LinearWeightCuda weight, LinearWeightCuda::allocate(plan));
    fill_kernel<<<264, 256, 0, stream_.get()>>>(
        reinterpret_cast<uint32_t*>(weight.mutable_data()), plan.weight_bytes() / 4, seed,
        unit_bytes(plan.format) / 4, quant_bytes(plan.format) / 4);
    FORERUN_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "filling a weight");
    FORERUN_RETURN_IF_ERROR(stream_.synchronize());
    return Result<LinearWeightCuda>(std::move(weight));
  }

  // `in_forward` says that the layer runs among the other layers of its model.
  Status submit(const LinearWeightCuda& weight, const Layer& layer, int rows, bool norm,
                bool in_forward) {
    LinearCall call;
    call.input = input_.as<uint16_t>();
    call.input_stride = linear_input_stride(layer.in, rows);
    if (std::strncmp(layer.name, "head", 4) == 0) {
      call.output_f32 = output_.as<float>();
    } else {
      call.output = output_.as<uint16_t>();
    }
    call.output_stride = layer.gated ? layer.out / 2 : layer.out;
    call.rows = rows;
    call.gated = layer.gated;
    const bool residual = std::strcmp(layer.name, "o") == 0 || std::strcmp(layer.name, "down") == 0;
    if (in_forward && residual) call.footprint = LinearFootprint::kOverHalf;
    call.scratch = scratch_.view(squares_.as<uint32_t>());  // never written, as no wait times out
    if (norm && residual) {
      call.residual = output_.as<__nv_bfloat16>();
      call.next_norm = {input_.as<float>(), scaled_.as<uint16_t>(), squares_.as<float>()};
    } else if (norm) {
      call.norm = {squares_.as<float>(), 1e-5f};
    }
    return linear_cuda(weight, call, stream_.get());
  }

  // Captures what `submit_all` submits as a graph. Returns the median time of its replays.
  Result<double> graph_us(const std::function<Status()>& submit_all) {
    FORERUN_ASSIGN_OR_RETURN(Graph graph, Graph::capture(stream_, submit_all));
    std::vector<double> times;
    for (int replay = 0; replay < 24; ++replay) {
      FORERUN_RETURN_IF_ERROR(start_.record(stream_));
      FORERUN_RETURN_IF_ERROR(graph.launch(stream_));
      FORERUN_RETURN_IF_ERROR(stop_.record(stream_));
      FORERUN_RETURN_IF_ERROR(stop_.synchronize());
      FORERUN_ASSIGN_OR_RETURN(const float ms, stop_.elapsed_ms(start_));
      if (replay >= 3) times.push_back(static_cast<double>(ms) * 1e3);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  cudaStream_t stream() const { return stream_.get(); }

 private:
  static constexpr size_t kActivationBytes = size_t{64} << 20;
  static constexpr size_t kOutputBytes = size_t{640} << 20;  // 1,024 rows of logits
  Bench(Stream stream, Event start, Event stop, DeviceBuffer input, DeviceBuffer output,
        DeviceBuffer scaled, DeviceBuffer squares, LinearScratchBuffer scratch)
      : stream_(std::move(stream)),
        start_(std::move(start)),
        stop_(std::move(stop)),
        input_(std::move(input)),
        output_(std::move(output)),
        scaled_(std::move(scaled)),
        squares_(std::move(squares)),
        scratch_(std::move(scratch)) {}
  Stream stream_;
  Event start_, stop_;
  DeviceBuffer input_, output_, scaled_, squares_;
  LinearScratchBuffer scratch_;
};

struct Options {
  std::vector<int> rows = {8};
  std::string filter;
  bool splits = false, forwards = false, layers = true, norm = false;
  FILE* json = nullptr;
  std::string command;
};

void report(const Options& options, const std::string& figure, double us, double min_us,
            const std::string& note) {
  std::printf("%-44s %9.2f us  floor %9.2f  ratio %5.2f  %s\n", figure.c_str(), us, min_us,
              us / min_us, note.c_str());
  std::fflush(stdout);
  if (options.json == nullptr) return;
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof(date), "%Y-%m-%d", std::gmtime(&now));
  const char* commit = std::getenv("FORERUN_COMMIT");
  std::fprintf(
      options.json,
      "{\"command\":\"%s\",\"machine\":\"1 x NVIDIA H200\",\"date\":\"%s\",\"commit\":\"%s\","
      "\"figure\":\"%s\",\"value\":%.3f,\"unit\":\"us\",\"target\":%.3f,\"note\":"
      "\"target is the floor; measured/floor %.3f; %s\"}\n",
      options.command.c_str(), date, commit == nullptr ? "" : commit, figure.c_str(), us, min_us,
      us / min_us, note.c_str());
}

Result<LinearPlan> plan_for(const Layer& layer) {
  const bool before_attention = std::strcmp(layer.name, "qkv") == 0;
  return plan_linear(layer.format, layer.in, layer.out, before_attention);
}

std::string split_text(const LinearPlan& plan, int rows, bool may_be_wide) {
  if (rows >= kFewestTileRows) {
    const LinearTiling tiling = plan_tiles(plan, rows, 132, may_be_wide);
    return std::to_string(tiling.blocks) + " blocks of " +
           std::to_string(tiling.block_tiles * kTileOutputs) + " outputs, " +
           std::to_string(tiling.splits) + " a tile of " +
           std::to_string(plan.cluster_size * plan.slice_k_warps) + " chains";
  }
  const Result<LinearLaunch> launch = plan_launch(plan, rows, 232448);
  char text[128];
  std::snprintf(text, sizeof(text), "cluster %d, %d input warps, %d stages, %d KB",
                plan.cluster_size, plan.slice_k_warps, launch.ok() ? launch->stages : 0,
                launch.ok() ? launch->shared_bytes / 1024 : 0);
  return text;
}

Status bench_plan(Bench& bench, const Options& options, const Layer& layer, LinearPlan plan) {
  // Takes distinct weights, 400 MB at least, which is eight times the L2, and at least 24 launches.
  const auto count =
      static_cast<int>(std::clamp<size_t>((size_t{400} << 20) / plan.weight_bytes() + 1, 4, 160));
  const int launches = std::max(count, 24);
  std::vector<LinearWeightCuda> weights;
  for (int i = 0; i < count; ++i) {
    FORERUN_ASSIGN_OR_RETURN(LinearWeightCuda weight,
                             bench.make_weight(plan, static_cast<uint32_t>(i)));
    weights.push_back(std::move(weight));
  }
  for (const int rows : options.rows) {
    FORERUN_ASSIGN_OR_RETURN(const double us, bench.graph_us([&] {
      for (int i = 0; i < launches; ++i) {
        FORERUN_RETURN_IF_ERROR(bench.submit(weights[i % count], layer, rows, options.norm, false));
      }
      return Status();
    }));
    report(options,
           std::string(layer.model) + "." + layer.name + " " + std::to_string(rows) + " rows",
           us / launches, floor_us(plan, rows),
           split_text(plan, rows, layer.gated || std::strncmp(layer.name, "head", 4) == 0) +
               (options.norm ? ", with its norm" : ""));
  }
  return {};
}

Status bench_layers(Bench& bench, const Options& options) {
  for (const Layer& layer : kLayers) {
    const std::string name = std::string(layer.model) + "." + layer.name;
    if (name.find(options.filter) == std::string::npos) continue;
    if (!options.splits) {
      FORERUN_ASSIGN_OR_RETURN(const LinearPlan plan, plan_for(layer));
      FORERUN_RETURN_IF_ERROR(bench_plan(bench, options, layer, plan));
      continue;
    }
    for (const int cluster_size : {1, 2, 4}) {
      for (const int slice_k_warps : {1, 2, 4, 8}) {
        const Result<LinearPlan> plan =
            plan_linear(layer.format, layer.in, layer.out, cluster_size, slice_k_warps);
        if (!plan.ok()) continue;
        const Result<LinearLaunch> launch = plan_launch(*plan, options.rows[0], 232448);
        if (!launch.ok() || launch->row_tiles > 1) continue;
        FORERUN_RETURN_IF_ERROR(bench_plan(bench, options, layer, *plan));
      }
    }
  }
  return {};
}

Status bench_forwards(Bench& bench, const Options& options) {
  for (const Model& model : kModels) {
    if (std::string(model.name).find(options.filter) == std::string::npos) continue;
    std::vector<const Layer*> layers;
    for (const Layer& layer : kLayers) {
      if (std::strcmp(layer.model, model.name) == 0 && std::strncmp(layer.name, "head", 4) != 0) {
        layers.push_back(&layer);
      }
    }
    std::vector<LinearWeightCuda> weights;
    for (int i = 0; i < model.layers; ++i) {
      for (const Layer* layer : layers) {
        FORERUN_ASSIGN_OR_RETURN(const LinearPlan plan, plan_for(*layer));
        FORERUN_ASSIGN_OR_RETURN(LinearWeightCuda weight,
                                 bench.make_weight(plan, static_cast<uint32_t>(weights.size())));
        weights.push_back(std::move(weight));
      }
    }
    for (const int rows : options.rows) {
      double min_us = 0;
      for (const LinearWeightCuda& weight : weights) min_us += floor_us(weight.plan(), rows);
      for (const bool delays : {false, true}) {
        FORERUN_ASSIGN_OR_RETURN(const double us, bench.graph_us([&] {
          for (size_t i = 0; i < weights.size(); ++i) {
            const size_t op = i % layers.size();
            FORERUN_RETURN_IF_ERROR(
                bench.submit(weights[i], *layers[op], rows, options.norm, true));
            const int wait_ns = op == 0 ? model.attention_ns : op == 2 ? 0 : model.all_reduce_ns;
            if (delays && wait_ns > 0) {
              FORERUN_RETURN_IF_ERROR(submit_delay(wait_ns, bench.stream()));
            }
          }
          return Status();
        }));
        report(options,
               std::string(model.name) + " all linear layers, " + std::to_string(rows) + " rows",
               us, min_us,
               delays ? "with stand-ins: attention " + std::to_string(model.attention_ns) +
                            " ns, all-reduce " + std::to_string(model.all_reduce_ns) + " ns"
                      : "linear layers alone");
      }
    }
  }
  return {};
}

Status run(const Options& options) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<DeviceInfo> devices, list_devices());
  if (devices.empty() || devices[0].compute_major < 9) {
    return {StatusCode::kUnsupported, "needs a GPU of compute capability 9.0"};
  }
  FORERUN_ASSIGN_OR_RETURN(const double bandwidth, measure_read_bandwidth(size_t{4} << 30));
  std::printf("%s, %d multiprocessors, read bandwidth %.2f TB/s\n", devices[0].name.c_str(),
              devices[0].multiprocessors, bandwidth * 1e-12);
  FORERUN_ASSIGN_OR_RETURN(Bench bench, Bench::create());
  if (options.layers) FORERUN_RETURN_IF_ERROR(bench_layers(bench, options));
  if (options.forwards) FORERUN_RETURN_IF_ERROR(bench_forwards(bench, options));
  return {};
}

bool parse(int argc, char** argv, Options& options) {
  options.command = "linear_cuda_bench";
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    options.command += " " + arg;
    if (arg == "--splits") {
      options.splits = true;
      continue;
    }
    if (arg == "--norm") {
      options.norm = true;
      continue;
    }
    if (arg == "--forwards") {
      options.forwards = true;
      options.layers = false;
      continue;
    }
    if (value == nullptr) return false;
    ++i;
    if (arg == "--filter") {
      options.filter = value;
    } else if (arg == "--json") {
      options.json = std::fopen(value, "a");
      if (options.json == nullptr) return false;
      continue;
    } else if (arg == "--rows") {
      options.rows.clear();
      for (const char* at = value; *at != '\0';) {
        char* end = nullptr;
        options.rows.push_back(static_cast<int>(std::strtol(at, &end, 10)));
        if (end == at || options.rows.back() < 1) return false;
        at = *end == ',' ? end + 1 : end;
      }
    } else {
      return false;
    }
    options.command += std::string(" ") + value;
  }
  return true;
}

}  // namespace
}  // namespace forerun::cuda

int main(int argc, char** argv) {
  forerun::cuda::Options options;
  if (!forerun::cuda::parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: %s [--rows 8,16,32] [--filter TEXT] [--splits] [--forwards] "
                 "[--norm] [--json FILE]\n",
                 argv[0]);
    return 2;
  }
  const forerun::Status status = forerun::cuda::run(options);
  if (options.json != nullptr) std::fclose(options.json);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}
