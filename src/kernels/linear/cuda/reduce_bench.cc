// Measures linear layers with their all-reduce over a group of GPUs, and the same layers without
// it.
//
//   linear_reduce_cuda_bench [--gpus N] [--rows 8,16,32] [--shots 1|2] [--json FILE]
//
// The O and down layers of Llama-3-70B int4, cut for the group as the model is, so in parts that
// may differ: a graph of launches over distinct weights (together several times the L2), each
// dependent on the one before; the median of replays over the number of launches. With N of 2 or
// more, one thread per GPU launches its graph; a replay takes as long as on the GPU that came last,
// since the others have waited for it; without the sum, it takes as long as on the first, which has
// the largest part. With one GPU (the default) loopback replaces a group of 2 and of 4: it has
// everything but the links.
#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "device/cuda/cuda_devices.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/peer_group.h"
#include "kernels/linear/cuda/linear.h"

namespace forerun::cuda {
namespace {

constexpr int64_t kWidth = 8192;
constexpr int kMaxRows = 256;
constexpr int kReplays = 24;

struct Layer {
  const char* name;
  int64_t inputs;  // inputs on one GPU (undivided)
  int64_t unit;    // smallest part: the query heads of a KV head, or a group of int4

  // If units do not divide evenly, the first ranks take one more.
  int64_t part(int degree, int rank) const {
    const int64_t units = inputs / unit;
    return (units / degree + (rank < units % degree ? 1 : 0)) * unit;
  }
};
constexpr Layer kLayers[] = {{"o", 8192, 1024}, {"down", 28672, 128}};

struct Options {
  int gpus = 1;
  std::vector<int> rows = {8, 16, 32};
  std::optional<int64_t> two_shot_bytes;  // PeerGroupOptions
  FILE* json = nullptr;
  std::string command = "linear_reduce_cuda_bench";
};

// One GPU's weights and activations for its shard of a layer.
class Rank {
 public:
  static Result<Rank> create(int device, int64_t inputs, size_t launches) {
    FORERUN_RETURN_IF_ERROR(use_device(device));
    FORERUN_RETURN_IF_ERROR(prepare_linear_cuda());
    FORERUN_ASSIGN_OR_RETURN(Stream stream, Stream::create());
    FORERUN_ASSIGN_OR_RETURN(Event start, Event::create());
    FORERUN_ASSIGN_OR_RETURN(Event stop, Event::create());
    Rank rank(device, inputs, std::move(stream), std::move(start), std::move(stop));
    FORERUN_ASSIGN_OR_RETURN(const LinearPlan plan,
                             plan_linear(LinearFormat::kInt4Group128, inputs, kWidth));
    std::vector<uint32_t> words(plan.weight_bytes() / 4);
    std::mt19937 random(1);
    for (size_t i = 0; i < words.size(); ++i) {
      // Scales, 16 of a unit's 532 words, are small f16 of either sign.
      words[i] = static_cast<uint32_t>(random());
      if (i % 532 >= 512 && i % 532 < 528) words[i] = (words[i] & 0x80ff80ffu) | 0x10001000u;
    }
    for (size_t i = 0; i < launches; ++i) {
      FORERUN_ASSIGN_OR_RETURN(LinearWeightCuda weight, LinearWeightCuda::allocate(plan));
      FORERUN_CUDA_RETURN_IF_ERROR(cudaMemcpy(weight.mutable_data(), words.data(),
                                              plan.weight_bytes(), cudaMemcpyHostToDevice),
                                   "filling a weight");
      rank.weights_.push_back(std::move(weight));
    }
    const size_t bytes = static_cast<size_t>(kMaxRows * std::max(inputs, kWidth)) * 2;
    for (DeviceBuffer* buffer : {&rank.input_, &rank.x_}) {
      FORERUN_ASSIGN_OR_RETURN(*buffer, DeviceBuffer::allocate(bytes, "activations"));
      FORERUN_CUDA_RETURN_IF_ERROR(cudaMemset(buffer->data(), 0x3c, bytes), "filling activations");
    }
    FORERUN_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr), "filling weights");
    FORERUN_ASSIGN_OR_RETURN(rank.scratch_, LinearScratchBuffer::allocate());
    return rank;
  }

  size_t launches() const { return weights_.size(); }
  double floor_us() const {
    return static_cast<double>(weights_[0].plan().weight_bytes()) / 4.55e12 * 1e6;
  }
  // Captures the graph that replay() runs, without the all-reduce if `peers` is null.
  Status capture(int rows, const PeerMailboxes* peers) {
    FORERUN_RETURN_IF_ERROR(use_device(device_));
    FORERUN_ASSIGN_OR_RETURN(
        Graph graph, Graph::capture(stream_, [&] {
          for (size_t i = 0; i < weights_.size(); ++i) {
            LinearCall call;
            call.input = input_.as<uint16_t>();
            call.input_stride = inputs_;
            call.output = x_.as<uint16_t>();
            call.residual = x_.as<__nv_bfloat16>();
            call.output_stride = kWidth;
            call.rows = rows;
            call.reduce = peers;
            call.mailbox = static_cast<int>(i % 2);
            // Stays zero, because no wait times out.
            call.scratch = scratch_.view(x_.as<uint32_t>());
            FORERUN_RETURN_IF_ERROR(linear_cuda(weights_[i], call, stream_.get()));
          }
          return Status();
        }));
    graph_.emplace(std::move(graph));
    return {};
  }
  // Returns the microseconds of one replay.
  Result<double> replay() {
    FORERUN_RETURN_IF_ERROR(start_.record(stream_));
    FORERUN_RETURN_IF_ERROR(graph_->launch(stream_));
    FORERUN_RETURN_IF_ERROR(stop_.record(stream_));
    FORERUN_RETURN_IF_ERROR(stop_.synchronize());
    FORERUN_ASSIGN_OR_RETURN(const float ms, stop_.elapsed_ms(start_));
    return static_cast<double>(ms) * 1e3;
  }
  Status use() const { return use_device(device_); }

 private:
  Rank(int device, int64_t inputs, Stream stream, Event start, Event stop)
      : device_(device),
        inputs_(inputs),
        stream_(std::move(stream)),
        start_(std::move(start)),
        stop_(std::move(stop)) {}
  int device_;
  int64_t inputs_;
  Stream stream_;
  Event start_, stop_;
  std::vector<LinearWeightCuda> weights_;
  DeviceBuffer input_, x_;
  LinearScratchBuffer scratch_;
  std::optional<Graph> graph_;
};

// Returns the number of launches of each rank, of at most `inputs` inputs: at least 400 MB of
// weights, and an even number, since exchanges alternate between two mailboxes.
Result<size_t> launches_of(int64_t inputs) {
  FORERUN_ASSIGN_OR_RETURN(const LinearPlan plan,
                           plan_linear(LinearFormat::kInt4Group128, inputs, kWidth));
  return std::max<size_t>(24, ((size_t{400} << 20) / plan.weight_bytes() + 2) & ~1u);
}

// Returns the median over replays of the time per launch: with the all-reduce, of the shortest time
// of any rank; without it, of the first rank's time.
Result<double> launch_us(std::vector<Rank>& ranks, bool reduce) {
  std::vector<std::vector<double>> times(ranks.size());
  std::vector<Status> failures(ranks.size());
  std::barrier together(static_cast<std::ptrdiff_t>(ranks.size()));
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      failures[r] = ranks[r].use();
      for (int i = 0; i < kReplays; ++i) {
        together.arrive_and_wait();
        const Result<double> us = ranks[r].replay();
        if (!us.ok()) failures[r] = us.status();
        times[r].push_back(us.ok() ? *us : 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& failure : failures) FORERUN_RETURN_IF_ERROR(failure);
  std::vector<double> least;
  for (size_t i = 3; i < kReplays; ++i) {
    double us = times[0][i];
    for (const std::vector<double>& of_rank : times) {
      if (reduce) us = std::min(us, of_rank[i]);
    }
    least.push_back(us);
  }
  std::sort(least.begin(), least.end());
  return least[least.size() / 2] / static_cast<double>(ranks[0].launches());
}

void report(const Options& options, const std::string& figure, double us, double floor_us,
            const std::string& note) {
  std::printf("%-40s %8.2f us  floor %6.2f  %s\n", figure.c_str(), us, floor_us, note.c_str());
  std::fflush(stdout);
  if (options.json == nullptr) return;
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof(date), "%Y-%m-%d", std::gmtime(&now));
  const char* commit = std::getenv("FORERUN_COMMIT");
  std::fprintf(options.json,
               "{\"command\":\"%s\",\"machine\":\"%d x NVIDIA H200\",\"date\":\"%s\",\"commit\":"
               "\"%s\",\"figure\":\"%s\",\"value\":%.3f,\"unit\":\"us\",\"target\":%.3f,\"note\":"
               "\"target is the floor; %s\"}\n",
               options.command.c_str(), options.gpus, date, commit == nullptr ? "" : commit,
               figure.c_str(), us, floor_us, note.c_str());
}

Status bench_group(const Options& options, int degree) {
  const PeerGroupOptions group_options{
      .max_rows = kMaxRows, .width = kWidth, .two_shot_bytes = options.two_shot_bytes};
  std::vector<int> devices;
  for (int device = 0; device < options.gpus; ++device) devices.push_back(device);
  FORERUN_ASSIGN_OR_RETURN(const PeerGroup group,
                           options.gpus == 1 ? PeerGroup::loopback(0, degree, group_options)
                                             : PeerGroup::create(devices, group_options));
  for (const Layer& layer : kLayers) {
    std::vector<Rank> ranks;
    FORERUN_ASSIGN_OR_RETURN(const size_t launches, launches_of(layer.part(degree, 0)));
    for (const int device : devices) {
      FORERUN_ASSIGN_OR_RETURN(Rank rank,
                               Rank::create(device, layer.part(degree, device), launches));
      ranks.push_back(std::move(rank));
    }
    for (const int rows : options.rows) {
      double alone_us = 0;
      for (const bool reduce : {false, true}) {
        for (size_t r = 0; r < ranks.size(); ++r) {
          FORERUN_RETURN_IF_ERROR(
              ranks[r].capture(rows, reduce ? &group.rank(static_cast<int>(r)) : nullptr));
        }
        FORERUN_ASSIGN_OR_RETURN(const double us, launch_us(ranks, reduce));
        FORERUN_RETURN_IF_ERROR(group.check());
        if (!reduce) alone_us = us;
        char note[96];
        std::snprintf(note, sizeof(note), reduce ? "sum over %d GPUs%s: +%.2f" : "alone", degree,
                      options.gpus == 1 ? ", loopback" : "", us - alone_us);
        report(options,
               "70b-tp" + std::to_string(degree) + "-int4." + layer.name + " " +
                   std::to_string(rows) + " rows" + (reduce ? " + sum" : ""),
               us, ranks[0].floor_us(), note);
      }
    }
  }
  return {};
}

Status run(const Options& options) {
  if (options.gpus > 1) return bench_group(options, options.gpus);
  for (const int degree : {2, 4}) FORERUN_RETURN_IF_ERROR(bench_group(options, degree));
  return {};
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string arg = argv[i];
    const char* const value = argv[i + 1];
    if (arg == "--json") {
      options.json = std::fopen(value, "a");
      if (options.json == nullptr) return false;
      continue;
    }
    options.command += " " + arg + " " + value;
    if (arg == "--gpus") {
      options.gpus = std::atoi(value);
      if (options.gpus < 1) return false;
    } else if (arg == "--shots") {
      const int shots = std::atoi(value);
      if (shots != 1 && shots != 2) return false;
      options.two_shot_bytes = shots == 2 ? 0 : std::numeric_limits<int64_t>::max();
    } else if (arg == "--rows") {
      options.rows.clear();
      for (const char* at = value; *at != '\0';) {
        char* end = nullptr;
        options.rows.push_back(static_cast<int>(std::strtol(at, &end, 10)));
        if (end == at || options.rows.back() < 1 || options.rows.back() > kMaxRows) return false;
        at = *end == ',' ? end + 1 : end;
      }
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

}  // namespace
}  // namespace forerun::cuda

int main(int argc, char** argv) {
  forerun::cuda::Options options;
  if (!forerun::cuda::parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: %s [--gpus N] [--rows 8,16,32] [--shots 1|2] [--json FILE]\n",
                 argv[0]);
    return 2;
  }
  const forerun::Status status = forerun::cuda::run(options);
  if (options.json != nullptr) std::fclose(options.json);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}
