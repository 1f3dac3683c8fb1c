// Measures the linear layers: GB/s of weights, Gop/s (a multiply-add counts as two), rows/s, beside
// a plain read loop on the same cores in the same run.
//
//   linear_bench --benchmark_filter='4096x14336/int4/bf16' --benchmark_repetitions=5
//
// FORERUN_BENCH_THREADS sets the team's size (default: every available core, pinned).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/formats/grouped.h"
#include "kernels/linear/formats/grouped_packer.h"
#include "kernels/linear/formats/integer_packer.h"
#include "kernels/linear/linear.h"

namespace forerun {
namespace {

CpuDevice& cpu() {
  static const std::unique_ptr<CpuDevice> device = [] {
    std::vector<int32_t> cores = available_cores();
    const char* wanted = std::getenv("FORERUN_BENCH_THREADS");
    if (wanted != nullptr) {
      cores.resize(std::min(cores.size(), static_cast<size_t>(std::max(1, std::atoi(wanted)))));
    }
    return std::move(CpuDevice::create(cores)).value();
  }();
  return *device;
}

struct Shape {
  const char* name;
  int64_t out;
  int64_t in;
  int64_t copies;  // layers run one after another; 1 if a layer exceeds the caches or is meant to
                   // stay in them
};

// The demo target's layers run over enough copies to exceed the L2 caches, as in a forward pass.
constexpr Shape kShapes[] = {
    {"4096x14336", 14336, 4096, 1}, {"14336x4096", 4096, 14336, 1}, {"512x1408", 1408, 512, 24},
    {"1408x512", 512, 1408, 24},    {"512x1408_L2", 1408, 512, 1},  {"512x8192", 8192, 512, 1},
    {"2048x8192", 8192, 2048, 2},   {"8192x2048", 2048, 8192, 2},   {"192x512", 512, 192, 8},
    {"192x8192", 8192, 192, 1},     {"4096x4096", 4096, 4096, 8},
};

struct Layer {
  std::vector<uint32_t> source;
  LinearWeight weight;
};

uint32_t next_bits(uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return state ^ (state >> 15);
}

Layer make_layer(WeightFormat format, const Shape& shape) {
  uint32_t state = 1;
  Layer layer;
  const int64_t count = shape.out * shape.in;
  if (format == WeightFormat::kInt4) {
    constexpr int64_t kGroup = 64;
    const int64_t group = shape.in % 128 == 0 ? 128 : kGroup;
    std::vector<int32_t> qweight(static_cast<size_t>(count / 8));
    std::vector<int32_t> qzeros(static_cast<size_t>(count / 8 / group));
    const std::vector<float> scales(static_cast<size_t>(count / group), 0.01f);
    for (int32_t& word : qweight) word = static_cast<int32_t>(next_bits(state));
    for (int32_t& word : qzeros) word = static_cast<int32_t>(next_bits(state));
    layer.weight = LinearWeight::from_awq(
        MatrixView<const int32_t>(qweight.data(), {shape.in, shape.out / 8}),
        MatrixView<const int32_t>(qzeros.data(), {shape.in / group, shape.out / 8}),
        MatrixView<const float>(scales.data(), {shape.in / group, shape.out}), group);
    return layer;
  }
  if (format == WeightFormat::kInt8Groups) {
    GroupedIntegers source;
    source.bits = 8;
    source.group = shape.in % 128 == 0 ? 128 : 64;
    source.quants = [&state](int64_t, MatrixView<uint8_t> q) {
      for (int64_t out = 0; out < q.dim(0); ++out) {
        std::generate_n(q.row(out), q.dim(1),
                        [&] { return static_cast<uint8_t>(next_bits(state)); });
      }
    };
    source.scales = [](int64_t, std::span<float> scales) {
      std::fill(scales.begin(), scales.end(), 0.0078125f);
    };
    source.zeros = [&state](int64_t, std::span<int16_t> zeros) {
      for (int16_t& zero : zeros) zero = static_cast<int16_t>(next_bits(state) % 256);
    };
    layer.weight = LinearWeight::pack_integers(shape.out, shape.in, source).value();
    return layer;
  }
  if (format == WeightFormat::kFp8) {
    layer.source.resize(static_cast<size_t>(count / 4));
    // The magnitudes are in [1, 2).
    for (uint32_t& word : layer.source) word = 0x38383838u | (next_bits(state) & 0x87878787u);
    const int64_t rows = (shape.out + 127) / 128;
    const int64_t cols = (shape.in + 127) / 128;
    const std::vector<float> scales(static_cast<size_t>(rows * cols), 0.01f);
    layer.weight =
        LinearWeight::view_fp8(
            MatrixView<const uint8_t>(reinterpret_cast<const uint8_t*>(layer.source.data()),
                                      {shape.out, shape.in}),
            {MatrixView<const float>(scales.data(), {rows, cols}), 128, 128})
            .value();
    return layer;
  }
  if (is_grouped(format)) {
    const GroupedFormat& grouped = grouped_format(format);
    if (shape.in % block_inputs(grouped) != 0) return layer;
    layer.weight = LinearWeight::pack_grouped(
        format, shape.out, shape.in, [&](int64_t, int64_t, std::span<GroupedBlock> to) {
          for (GroupedBlock& block : to) {
            for (uint8_t& q : block.q)
              q = static_cast<uint8_t>(next_bits(state) >> (32 - grouped.bits));
            for (int8_t& scale : block.scale) scale = static_cast<int8_t>(next_bits(state) % 16);
            for (int8_t& min : block.min) min = static_cast<int8_t>(next_bits(state) % 16);
            block.d = block.dmin = grouped.scale == GroupScale::kE8m0   ? 120
                                   : grouped.scale == GroupScale::kBf16 ? 0x3c00
                                                                        : 0x2000;
          }
        });
    return layer;
  }
  const bool wide = format == WeightFormat::kF32 || format == WeightFormat::kInt8;
  layer.source.resize(static_cast<size_t>(wide ? count : count / 2));
  // Numbers have magnitudes in [1, 2): mantissas are random, since zeros run faster.
  const bool half = format == WeightFormat::kF16;
  const uint32_t pattern = wide ? 0x3f800000u : half ? 0x3c003c00u : 0x3f803f80u;
  const uint32_t mantissa = wide ? 0x807fffffu : half ? 0x83ff83ffu : 0x807f807fu;
  for (uint32_t& word : layer.source) word = pattern | (next_bits(state) & mantissa);
  const void* data = layer.source.data();
  const std::array<int64_t, 2> dims = {shape.out, shape.in};
  if (format == WeightFormat::kBf16) {
    layer.weight = LinearWeight::view(MatrixView<const bf16>(static_cast<const bf16*>(data), dims));
  } else if (format == WeightFormat::kBf16Pairs) {
    layer.weight =
        LinearWeight::pair_bf16(MatrixView<const bf16>(static_cast<const bf16*>(data), dims));
    layer.source = {};
  } else if (format == WeightFormat::kF16) {
    layer.weight = LinearWeight::view(MatrixView<const f16>(static_cast<const f16*>(data), dims));
  } else if (format == WeightFormat::kF32) {
    layer.weight =
        LinearWeight::view(MatrixView<const float>(static_cast<const float*>(data), dims));
  } else {
    layer.weight =
        LinearWeight::quantize_int8(MatrixView<const float>(static_cast<const float*>(data), dims));
    layer.source = {};
  }
  return layer;
}

// Layers are kept between benchmarks of the same weights and freed when other weights are needed.
const std::vector<Layer>& layers(WeightFormat format, const Shape& shape) {
  static std::vector<Layer> kept;
  static std::string kept_name;
  const std::string name = std::string(weight_format_name(format)) + shape.name;
  if (name != kept_name) {
    kept.clear();
    for (int64_t copy = 0; copy < shape.copies; ++copy) kept.push_back(make_layer(format, shape));
    kept_name = name;
  }
  return kept;
}

void bench_linear(benchmark::State& state, const Shape& shape, WeightFormat format,
                  Activation activation, int64_t rows) {
  const std::vector<Layer>& model = layers(format, shape);
  if (model[0].weight.out_features() == 0) {
    return state.SkipWithError("the inputs are not whole blocks of this format");
  }
  uint32_t bits = 7;
  std::vector<float> x(static_cast<size_t>(rows * shape.in));
  for (float& value : x) {
    value = static_cast<float>(next_bits(bits) >> 8) * 0x1p-23f - 1.0f;
  }
  std::vector<float> y(static_cast<size_t>(rows * shape.out));
  const MatrixView<const float> input_view(x.data(), {rows, shape.in});
  const MatrixView<float> output_view(y.data(), {rows, shape.out});
  LinearInput input;
  input.reserve(rows, shape.in, activation, weight_formats(format));
  const auto forward = [&](const Team& team) {
    for (const Layer& layer : model) {
      input.pack(team, input_view, activation, weight_formats(format));
      team.sync();
      linear(team, layer.weight, input, output_view);
      team.sync();
    }
  };
  cpu().run(forward);
  for (auto _ : state) cpu().run(forward);
  const double runs = static_cast<double>(state.iterations()) * static_cast<double>(model.size());
  const double bytes = static_cast<double>(model[0].weight.bytes());
  const double macs = static_cast<double>(shape.in * shape.out * rows);
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(bytes * runs * 1e-9, Counter::kIsRate);
  state.counters["Gop/s"] = Counter(2 * macs * runs * 1e-9, Counter::kIsRate);
  state.counters["rows/s"] = Counter(static_cast<double>(rows) * runs, Counter::kIsRate);
  state.SetLabel(linear_kernels().name);
}

// Sums the 64-bit words of this member's share: the speed of a plain loop over the same bytes.
void bench_read(benchmark::State& state, size_t bytes) {
  const std::shared_ptr<uint64_t[]> memory(new uint64_t[bytes / 8]);
  std::memset(memory.get(), 1, bytes);
  std::vector<uint64_t> sums(static_cast<size_t>(cpu().size()) * 8);
  const auto read = [&](const Team& team) {
    const WorkRange words = team.share(static_cast<int64_t>(bytes / 8), 512);
    uint64_t sum[8] = {};
    for (int64_t word = words.begin; word + 8 <= words.end; word += 8) {
      for (int64_t lane = 0; lane < 8; ++lane) {
        sum[lane] += memory[static_cast<size_t>(word + lane)];
      }
    }
    uint64_t total = 0;
    for (uint64_t part : sum) total += part;
    sums[static_cast<size_t>(team.rank()) * 8] = total;
  };
  for (auto _ : state) cpu().run(read);
  benchmark::DoNotOptimize(sums.data());
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(bytes) * static_cast<double>(state.iterations()) * 1e-9,
      benchmark::Counter::kIsRate);
}

void register_all() {
  for (size_t megabytes : {128, 16}) {
    benchmark::RegisterBenchmark(
        ("read/" + std::to_string(megabytes) + "MiB").c_str(),
        [megabytes](benchmark::State& state) { bench_read(state, megabytes << 20); })
        ->UseRealTime();
  }
  std::vector<std::pair<WeightFormat, Activation>> precisions = {
      {WeightFormat::kBf16Pairs, Activation::kBf16},
      {WeightFormat::kBf16, Activation::kBf16},
      {WeightFormat::kInt4, Activation::kBf16},
      {WeightFormat::kInt4, Activation::kInt8},
      {WeightFormat::kInt8, Activation::kBf16},
      {WeightFormat::kInt8, Activation::kInt8},
      {WeightFormat::kF16, Activation::kBf16},
      {WeightFormat::kF32, Activation::kF32},
      {WeightFormat::kInt4, Activation::kF32},
      {WeightFormat::kFp8, Activation::kBf16},
      {WeightFormat::kInt8Groups, Activation::kBf16},
      {WeightFormat::kInt8Groups, Activation::kInt8},
  };
  for (const GroupedFormat& format : kGroupedFormats) {
    precisions.emplace_back(format.format, Activation::kBf16);
    precisions.emplace_back(format.format, Activation::kInt8);
  }
  for (const Shape& shape : kShapes) {
    for (const auto& [format, activation] : precisions) {
      if (format == WeightFormat::kBf16Pairs && !takes_bf16_pairs(activation)) continue;
      for (int64_t rows : {1, 2, 4, 8, 16, 64, 512}) {
        const std::string name = std::string(shape.name) + "/" + weight_format_name(format) + "/" +
                                 activation_name(activation) + "/" + std::to_string(rows);
        const WeightFormat weight_format = format;
        const Activation input_activation = activation;
        benchmark::RegisterBenchmark(name.c_str(), [&shape, weight_format, input_activation,
                                                    rows](benchmark::State& state) {
          bench_linear(state, shape, weight_format, input_activation, rows);
        })->UseRealTime();
      }
    }
  }
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  forerun::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
