// Measures the cost of grammars: a mask of every state along real replies, compilation, advancing.
//
// Tokenizers are read from ../shared/data/tokenizers; absent ones are skipped. For masks, a reply
// is split into a tokenizer's own tokens and a mask is written before each. Counters, in
// microseconds per mask: "cold", nothing cached, every node analyzed when it is first reached;
// "prepared", a prepared grammar but no state reached before; "warm", every state reached before.
// p50 and p99 are over all states of all replies.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/testing.h"
#include "grammar/token_masks.h"
#include "text/testing.h"
#include "text/tokenizer.h"

namespace forerun::grammar {
namespace {

struct Case {
  std::string name, schema, reply;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"person",
       R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string","maxLength":30},"maxItems":5},"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}},"required":["street","city"],"additionalProperties":false}},"required":["name","age","email","tags","address"],"additionalProperties":false})",
       "{\"name\": \"Mary O'Neill\", \"age\": 42, \"email\": \"mary.oneill@example.org\", "
       "\"tags\": "
       "[\"reader\", \"na\u00efve painter\"], \"address\": {\"street\": \"12 High Street, 2nd "
       "floor\", \"city\": \"K\u00f6ln\"}}"},
      {"events",
       R"({"$defs":{"event":{"anyOf":[{"type":"object","properties":{"kind":{"const":"click"},"x":{"type":"number"},"y":{"type":"number"}},"required":["kind","x","y"],"additionalProperties":false},{"type":"object","properties":{"kind":{"const":"note"},"text":{"type":"string","minLength":1,"maxLength":200},"at":{"type":"string","format":"date-time"}},"required":["kind","text"],"additionalProperties":false}]}},"type":"object","properties":{"events":{"type":"array","items":{"$ref":"#/$defs/event"}},"level":{"enum":["low","middle","high"]}},"required":["events","level"],"additionalProperties":false})",
       "{\n  \"events\": [\n    {\n      \"kind\": \"click\",\n      \"x\": 12.5,\n      \"y\": "
       "-3\n   "
       " },\n    {\n      \"kind\": \"note\",\n      \"text\": \"The quick brown fox said "
       "\\\"no\\\" "
       "and left without another word.\",\n      \"at\": \"2024-02-29T12:30:00Z\"\n    }\n  ],\n  "
       "\"level\": \"middle\"\n}"},
      {"tree",
       R"({"type":"object","properties":{"value":{"type":"string","pattern":"^[a-z]+(-[a-z]+)*$"},"children":{"type":"array","items":{"$ref":"#"}}},"required":["value","children"],"additionalProperties":false})",
       R"({"value":"root-node","children":[{"value":"left","children":[{"value":"leaf","children":[]}]},{"value":"right-side","children":[]}]})"},
      {"any object", R"({"type":"object"})",
       R"({"title": "A story of two cities", "year": 1859, "ok": true, "parts": [{"n": 1, "name": "Recalled to Life"}, {"n": 2, "name": "The Golden Thread", "pages": null}], "score": 4.75e0})"},
  };
  return all;
}

using Times = std::vector<double>;  // microseconds

double percentile(Times times, double share) {
  if (times.empty()) return 0;
  std::sort(times.begin(), times.end());
  return times[std::min(times.size() - 1,
                        static_cast<size_t>(share * static_cast<double>(times.size())))];
}

// Writes a mask before each token of the case's reply.
bool walk(const Grammar& grammar, const std::vector<int32_t>& ids, TokenMasks& masks,
          Times& times) {
  std::vector<uint32_t> mask(masks.vocabulary().mask_words());
  GrammarState state = grammar.start();
  for (const int32_t id : ids) {
    const auto begin = std::chrono::steady_clock::now();
    masks.write(state, mask);
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
    benchmark::DoNotOptimize(mask.data());
    if (!state.accept(masks.vocabulary().token(id))) return false;
  }
  return true;
}

void mask_along_replies(benchmark::State& state, const std::string& name) {
  const auto tokenizer = text::load_shared_tokenizer(name);
  if (!tokenizer) {
    state.SkipWithError("no such data under ../shared/data");
    return;
  }
  TokenMasks masks(std::make_shared<const VocabularyTrie>(*tokenizer));
  Times cold, prepared, warm;
  for (auto _ : state) {
    for (const Case& one : cases()) {
      // After a line break, since some tokenizers add a space before a text.
      const auto ids = tokenizer->encode("\n" + one.reply, {.add_special_tokens = false});
      const auto grammar = Grammar::from_json_schema(one.schema);
      if (!grammar.ok() || !ids.ok()) {
        state.SkipWithError("a case is broken");
        return;
      }
      std::vector<int32_t> reply = *ids;
      while (!reply.empty() && !masks.vocabulary().token(reply[0]).starts_with('{')) {
        reply.erase(reply.begin());
      }
      masks.clear();
      bool ok = walk(*grammar, reply, masks, cold);
      masks.clear();
      ok = ok && masks.prepare(*grammar).ok();
      ok = ok && walk(*grammar, reply, masks, prepared) && walk(*grammar, reply, masks, warm);
      if (!ok) {
        state.SkipWithError(("a reply is refused: " + one.name).c_str());
        return;
      }
    }
  }
  for (const auto& [kind, times] :
       {std::pair{"cold", &cold}, {"prepared", &prepared}, {"warm", &warm}}) {
    state.counters[std::string(kind) + "_p50_us"] = percentile(*times, 0.5);
    state.counters[std::string(kind) + "_p99_us"] = percentile(*times, 0.99);
  }
  state.counters["vocabulary"] = static_cast<double>(tokenizer->vocab_size());
}

void prepare_case(benchmark::State& state, const std::string& name, const Case& one) {
  const auto tokenizer = text::load_shared_tokenizer(name);
  if (!tokenizer) {
    state.SkipWithError("no such data under ../shared/data");
    return;
  }
  TokenMasks masks(std::make_shared<const VocabularyTrie>(*tokenizer));
  const auto grammar = Grammar::from_json_schema(one.schema);
  for (auto _ : state) {
    masks.clear();
    if (!masks.prepare(*grammar).ok()) state.SkipWithError("a case is refused");
  }
  state.counters["nodes"] = static_cast<double>(grammar->node_count());
}

void compile_case(benchmark::State& state, const Case& one) {
  for (auto _ : state) benchmark::DoNotOptimize(Grammar::from_json_schema(one.schema).ok());
}

void accept_bytes(benchmark::State& state, const Case& one) {
  const auto grammar = Grammar::from_json_schema(one.schema);
  for (auto _ : state) {
    GrammarState at = grammar->start();
    for (size_t i = 0; i < one.reply.size(); i += 4) at.accept(one.reply.substr(i, 4));
    if (!at.is_complete()) state.SkipWithError("a reply is refused");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * ((one.reply.size() + 3) / 4)));
}

void build_trie(benchmark::State& state, const std::string& name) {
  const auto tokenizer = text::load_shared_tokenizer(name);
  if (!tokenizer) {
    state.SkipWithError("no such data under ../shared/data");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(VocabularyTrie(*tokenizer).trie().nodes().data());
}

// Writes a mask before each token of a text; reports the steps and microseconds of the most
// expensive one.
void greedy_masks(benchmark::State& state, const std::string& name, const GreedyGrammar& greedy) {
  const auto tokenizer = text::load_shared_tokenizer(name);
  const auto grammar = Grammar::from_text(greedy.text);
  if (!tokenizer || !grammar.ok()) {
    state.SkipWithError(tokenizer ? "a grammar is broken" : "no such data under ../shared/data");
    return;
  }
  TokenMasks masks(std::make_shared<const VocabularyTrie>(*tokenizer));
  std::string text;
  while (text.size() < 400) text += " the quick brown fox jumps over the lazy dog";
  const auto ids = tokenizer->encode(text, {.add_special_tokens = false});
  Times times;
  uint64_t most = 0, sum = 0, tokens = 0, advancing = 0;
  for (auto _ : state) {
    masks.clear();
    const Result<uint32_t> prepared = masks.prepare(*grammar);
    GrammarState at = grammar->start();
    for (const int32_t id : *ids) {
      if (!prepared.ok()) break;
      const auto begin = std::chrono::steady_clock::now();
      uint64_t steps = 0;
      const auto mask = masks.find(at, *prepared, UINT64_MAX, steps);
      times.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
              .count());
      most = std::max(most, mask->steps);
      sum += mask->steps;
      if (mask->too_costly) break;
      if (at.advance(masks.vocabulary().token(id), UINT64_MAX, advancing) != Advance::kAccepted) {
        break;
      }
      ++tokens;
    }
  }
  state.counters["tokens"] = static_cast<double>(tokens);
  state.counters["most_steps"] = static_cast<double>(most);
  state.counters["steps"] = static_cast<double>(sum);
  state.counters["advancing"] = static_cast<double>(advancing);
  state.counters["p50_us"] = percentile(times, 0.5);
  state.counters["p99_us"] = percentile(times, 0.99);
}

const int registered = [] {
  for (const char* name :
       {"llama3.1", "qwen2.5", "deepseek-coder", "gpt2", "llama2-tinyllama", "mistral-v0.3"}) {
    benchmark::RegisterBenchmark(("mask_along_replies/" + std::string(name)).c_str(),
                                 mask_along_replies, name)
        ->Unit(benchmark::kMillisecond)
        ->Iterations(10);
    benchmark::RegisterBenchmark(("build_trie/" + std::string(name)).c_str(), build_trie, name)
        ->Unit(benchmark::kMillisecond);
  }
  for (const GreedyGrammar& greedy : greedy_grammars()) {
    for (const char* name : {"llama3.1", "gpt2"}) {
      benchmark::RegisterBenchmark(
          ("greedy_masks/" + std::string(name) + "/" + greedy.name).c_str(), greedy_masks, name,
          greedy)
          ->Unit(benchmark::kMillisecond)
          ->Iterations(1);
    }
  }
  for (const Case& one : cases()) {
    benchmark::RegisterBenchmark(("compile/" + one.name).c_str(), compile_case, one)
        ->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark(("prepare_llama3.1/" + one.name).c_str(), prepare_case, "llama3.1",
                                 one)
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("accept_4_bytes/" + one.name).c_str(), accept_bytes, one);
  }
  return 0;
}();

}  // namespace
}  // namespace forerun::grammar

BENCHMARK_MAIN();
