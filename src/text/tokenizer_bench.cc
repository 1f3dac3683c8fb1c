// Measures encoding and decoding speed on a novel, one thread: MB of text per second.
//
// Tokenizers are read from ../shared/data/tokenizers; absent ones are skipped.
#include <benchmark/benchmark.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "text/detokenizer.h"
#include "text/testing.h"
#include "text/tokenizer.h"

namespace forerun {
namespace {

void encode_novel(benchmark::State& state, const std::string& name) {
  const auto tokenizer = text::load_shared_tokenizer(name);
  const std::string novel = text::read_shared_file("text/war-and-peace.txt");
  if (!tokenizer || novel.empty()) {
    state.SkipWithError("no such data under ../shared/data");
    return;
  }
  for (auto _ : state) {
    auto ids = tokenizer->encode(novel);
    if (!ids.ok()) state.SkipWithError(ids.status().message().c_str());
    benchmark::DoNotOptimize(ids);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * novel.size()));
}

void encode_prompt(benchmark::State& state, const std::string& name) {
  const auto tokenizer = text::load_shared_tokenizer(name);
  const std::string prompt = text::read_shared_file("text/frankenstein.txt").substr(0, 2000);
  if (!tokenizer || prompt.empty()) {
    state.SkipWithError("no such data under ../shared/data");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->encode(prompt));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * prompt.size()));
}

void stream_tokens(benchmark::State& state, const std::string& name) {
  const auto tokenizer = text::load_shared_tokenizer(name);
  const std::string novel = text::read_shared_file("text/frankenstein.txt");
  if (!tokenizer || novel.empty()) {
    state.SkipWithError("no such data under ../shared/data");
    return;
  }
  const auto ids = tokenizer->encode(novel);
  if (!ids.ok()) {
    state.SkipWithError(ids.status().message().c_str());
    return;
  }
  for (auto _ : state) {
    Detokenizer detokenizer(*tokenizer);
    for (const int32_t id : *ids) benchmark::DoNotOptimize(detokenizer.push(id));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * ids->size()));
}

void load_file(benchmark::State& state, const std::string& name) {
  const std::string bytes = text::read_shared_tokenizer_json(name);
  if (bytes.empty()) {
    state.SkipWithError("no such data under ../shared/data");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::from_json(bytes).ok());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes.size()));
}

#define FORERUN_TEXT_BENCH(function)                                                            \
  BENCHMARK_CAPTURE(function, llama3_1, "llama3.1")->Unit(benchmark::kMillisecond);             \
  BENCHMARK_CAPTURE(function, qwen2_5, "qwen2.5")->Unit(benchmark::kMillisecond);               \
  BENCHMARK_CAPTURE(function, deepseek_coder, "deepseek-coder")->Unit(benchmark::kMillisecond); \
  BENCHMARK_CAPTURE(function, gpt2, "gpt2")->Unit(benchmark::kMillisecond);                     \
  BENCHMARK_CAPTURE(function, llama2, "llama2-tinyllama")->Unit(benchmark::kMillisecond);       \
  BENCHMARK_CAPTURE(function, mistral_v0_3, "mistral-v0.3")->Unit(benchmark::kMillisecond)

FORERUN_TEXT_BENCH(encode_novel);
FORERUN_TEXT_BENCH(encode_prompt);
FORERUN_TEXT_BENCH(stream_tokens);
FORERUN_TEXT_BENCH(load_file);

}  // namespace
}  // namespace forerun

BENCHMARK_MAIN();
