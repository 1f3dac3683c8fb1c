// Measures the summaries of rows of logits on one GPU (median of graph replays), and copies of the
// rows for comparison.
//
//   logits_summary_cuda_bench [--json FILE]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/logits_summary/cuda/logits_summary_rig.h"

namespace forerun::cuda {
namespace {

constexpr int32_t kVocab = 128256;

// Returns logits with the distribution of sampling_bench: normal with a few peaks.
std::vector<float> bench_logits(int32_t rows) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::vector<float> logits(static_cast<size_t>(rows) * kVocab);
  for (float& logit : logits) logit = normal(rng);
  for (int32_t row = 0; row < rows; ++row) {
    for (int peak = 0; peak < 20; ++peak) {
      logits[static_cast<size_t>(row) * kVocab + rng() % kVocab] =
          8.0f + static_cast<float>(peak % 4);
    }
  }
  return logits;
}

// Returns the microseconds of the work that `submit` submits: the median over samples, each the
// mean of a few runs.
Result<double> time_of(const Stream& stream, const std::function<Status()>& submit) {
  constexpr int kRepeats = 20;
  FORERUN_ASSIGN_OR_RETURN(const Graph graph, Graph::capture(stream, [&]() -> Status {
                             for (int i = 0; i < kRepeats; ++i) {
                               FORERUN_RETURN_IF_ERROR(submit());
                             }
                             return {};
                           }));
  FORERUN_ASSIGN_OR_RETURN(const Event start, Event::create());
  FORERUN_ASSIGN_OR_RETURN(const Event end, Event::create());
  std::vector<float> times;
  for (int sample = 0; sample < 15; ++sample) {
    FORERUN_RETURN_IF_ERROR(start.record(stream));
    FORERUN_RETURN_IF_ERROR(graph.launch(stream));
    FORERUN_RETURN_IF_ERROR(end.record(stream));
    FORERUN_RETURN_IF_ERROR(stream.synchronize());
    FORERUN_ASSIGN_OR_RETURN(const float ms, end.elapsed_ms(start));
    times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[times.size() / 2]) * 1e3 / kRepeats;
}

Status run(const std::string& json) {
  // The mask allows every third token; the sequence has 1,000 tokens, 7 of them on the path.
  const std::vector<uint32_t> mask(static_cast<size_t>(mask_words_cuda(kVocab)), 0x49249249u);
  std::vector<TokenCount> history;
  for (int32_t i = 0; i < 1000; ++i) history.push_back({i * 128, i % 3});
  RowEdits masked, penalized;
  masked.mask = 0;
  penalized.penalties = {.repetition = 1.1f, .presence = 0.1f, .frequency = 0.2f};
  penalized.history = history;
  penalized.path = std::span(history).first(7);
  const struct {
    const char* name;
    RowQuery query;
    const RowEdits* edits = nullptr;
  } cases[] = {
      {"greedy", {.kinds = 0}},
      {"sampled", {.kinds = RowQuery::kNoise, .inv_temperature = 1.25f}},
      {"sampled, log-probabilities",
       {.kinds = RowQuery::kNoise | RowQuery::kRawWeights, .top = 5, .inv_temperature = 1.25f}},
      {"top-p", {.kinds = RowQuery::kWeights, .top = 256, .inv_temperature = 1.25f}},
      {"the best 128", {.kinds = 0, .top = 128}},
      {"a draft's candidates", {.kinds = RowQuery::kNoisyTop, .top = 16, .inv_temperature = 1.25f}},
      {"a draft's candidates, greedy", {.kinds = RowQuery::kWeights, .top = 16}},
      {"greedy, masked", {.kinds = 0}, &masked},
      {"greedy, penalties", {.kinds = 0}, &penalized},
      {"sampled, masked", {.kinds = RowQuery::kNoise, .inv_temperature = 1.25f}, &masked},
      {"sampled, penalties", {.kinds = RowQuery::kNoise, .inv_temperature = 1.25f}, &penalized},
  };
  FORERUN_ASSIGN_OR_RETURN(const Stream stream, Stream::create());
  for (const int32_t rows : {1, 8, 16, 64}) {
    const std::vector<float> logits = bench_logits(rows);
    FORERUN_ASSIGN_OR_RETURN(const PinnedBuffer host,
                             PinnedBuffer::allocate(logits.size() * sizeof(float), "logits"));
    const auto report = [&](const char* name, double us) {
      std::printf("%3d rows  %-32s %8.2f us\n", rows, name, us);
      if (json.empty()) return;
      if (std::FILE* file = std::fopen(json.c_str(), "a")) {
        std::fprintf(file,
                     "{\"op\": \"row_digest\", \"case\": \"%s\", \"rows\": %d, \"us\": %.3f}\n",
                     name, rows, us);
        std::fclose(file);
      }
    };
    for (const auto& [name, query, row_edits] : cases) {
      std::vector<RowQuery> queries(static_cast<size_t>(rows), query);
      std::vector<RowEdits> edits;
      std::vector<uint32_t> masks;  // one per row
      for (size_t row = 0; row < queries.size(); ++row) {
        queries[row].vocab = kVocab;
        queries[row].position = static_cast<int32_t>(row);
        if (row_edits == nullptr) continue;
        queries[row].edits = static_cast<int32_t>(row);
        edits.push_back(*row_edits);
        masks.insert(masks.end(), mask.begin(), mask.end());
      }
      FORERUN_ASSIGN_OR_RETURN(
          const LogitsSummaryRigCuda rig,
          LogitsSummaryRigCuda::create(logits, kVocab, kVocab, 0, queries, edits, masks));
      FORERUN_ASSIGN_OR_RETURN(const double us, time_of(stream, [&] {
                                 return logits_summary_cuda(rig.call(), stream.get());
                               }));
      report(name, us);
      if (&name != &cases[0].name) continue;
      FORERUN_ASSIGN_OR_RETURN(const double copy, time_of(stream, [&] {
                                 return cuda_status(
                                     cudaMemcpyAsync(host.data(), rig.logits().data(), host.bytes(),
                                                     cudaMemcpyDeviceToHost, stream.get()),
                                     "cudaMemcpyAsync", "copying logits");
                               }));
      report("all logits to the host", copy);
    }
  }
  return {};
}

}  // namespace
}  // namespace forerun::cuda

int main(int argc, char** argv) {
  std::string json;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string(argv[i]) == "--json") json = argv[++i];
  }
  const forerun::Status status = forerun::cuda::run(json);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
