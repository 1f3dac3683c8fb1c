// Answers the questions of schema_test.py about grammars, with a JSON line for each.
//
//   schema_cases TOKENIZER_JSON
//
// Each line of standard input is {"schema": ..., "count": N, "seed": S, "texts": [...]}, with
// "reading": "letter" (if left out) or "intent" (grammar/schema_reading.h). The answer
// holds, under "derived", N texts walked by random allowed tokens, in turn of the tokenizer's
// vocabulary and of one made of random pieces (null where a walk found no end), and under
// "accepted" whether each of "texts" is a whole text of the grammar; or "error", why the schema is
// refused. Without "count" nothing is walked; instead "compile_us" and "prepare_us" say what
// compiling the schema and preparing its masks took of this thread, "nodes" how large it is, "read"
// how many bytes of each text the grammar goes along with, and "error" may also be why masks are
// refused.
#include <cstdint>
#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/testing.h"
#include "grammar/token_masks.h"

namespace {

using forerun::grammar::Grammar;
using forerun::grammar::SchemaReading;
using forerun::grammar::TokenMasks;
using forerun::grammar::VocabularyTrie;
using Json = nlohmann::ordered_json;

constexpr char kSample[] =
    "{\"name\": \"na\u00efve\", \"\u6f22\u5b57\": [1, 2.50, -3e2], \"text\": \"The \U0001f600 "
    "end\\n\"} "
    "2024-02-29T12:00:00Z 123e4567-e89b-12d3-a456-426614174000 user@example.org true false null";
constexpr size_t kSoftLimit = 60;  // tokens

// Along one walk by tokens drawn at random.
bool masks_hold(const Grammar& grammar, TokenMasks& masks, std::mt19937& random) {
  constexpr int kSteps = 24;
  const VocabularyTrie& vocabulary = masks.vocabulary();
  std::vector<uint32_t> mask(vocabulary.mask_words());
  forerun::grammar::GrammarState state = grammar.start();
  for (int step = 0; step < kSteps; ++step) {
    if (masks.write(state, mask) != state.is_complete()) return false;
    if (mask != forerun::grammar::brute_force_mask(state, vocabulary)) return false;
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < vocabulary.vocab_size(); ++id) {
      if ((mask[static_cast<size_t>(id) / 32] >> (id % 32)) & 1) allowed.push_back(id);
    }
    if (allowed.empty()) return state.is_complete();
    if (!state.accept(vocabulary.token(allowed[random() % allowed.size()]))) return false;
  }
  return true;
}

double thread_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

SchemaReading reading_of(const Json& question) {
  return question.value("reading", "letter") == "intent" ? SchemaReading::kIntent
                                                         : SchemaReading::kLetter;
}

Json accepted_of(const Grammar& grammar, const Json& question) {
  Json accepted = Json::array();
  for (const Json& text : question["texts"]) {
    accepted.push_back(forerun::grammar::matches(grammar, text.get_ref<const std::string&>()));
  }
  return accepted;
}

// How many bytes of `text` the grammar goes along with.
size_t bytes_read(const Grammar& grammar, const std::string& text) {
  forerun::grammar::GrammarState state = grammar.start();
  size_t read = 0;
  while (read < text.size() && state.accept({&text[read], 1})) ++read;
  return read;
}

// Measures what a schema of a corpus costs, and which texts it accepts.
Json measured(const Json& question, TokenMasks& masks) {
  Json reply;
  const std::string schema = question["schema"].dump();
  const double begin = thread_us();
  const auto grammar = Grammar::from_json_schema(schema, {}, reading_of(question));
  const double compiled = thread_us();
  reply["compile_us"] = compiled - begin;
  if (!grammar.ok()) {
    reply["error"] = grammar.status().message();
    return reply;
  }
  const auto prepared = masks.prepare(*grammar);
  reply["prepare_us"] = thread_us() - compiled;
  reply["nodes"] = grammar->node_count();
  if (!prepared.ok()) reply["error"] = prepared.status().message();
  reply["accepted"] = accepted_of(*grammar, question);
  for (const Json& text : question["texts"]) {
    reply["read"].push_back(bytes_read(*grammar, text.get_ref<const std::string&>()));
  }
  return reply;
}

Json answer(const Json& question, TokenMasks& real, TokenMasks& synthetic, TokenMasks& small) {
  if (!question.contains("count")) return measured(question, real);
  Json reply;
  const auto grammar =
      Grammar::from_json_schema(question["schema"].dump(), {}, reading_of(question));
  if (!grammar.ok()) return Json{{"error", grammar.status().message()}};
  std::mt19937 random(question["seed"].get<uint32_t>());
  reply["derived"] = Json::array();
  for (int i = 0; i < question["count"].get<int>(); ++i) {
    const std::optional<std::string> text =
        forerun::grammar::random_text(*grammar, i % 2 == 0 ? real : synthetic, random, kSoftLimit);
    reply["derived"].push_back(text ? Json(*text) : Json());
  }
  reply["accepted"] = accepted_of(*grammar, question);
  reply["masks_hold"] = masks_hold(*grammar, small, random);
  return reply;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: schema_cases TOKENIZER_JSON < questions\n";
    return 2;
  }
  const auto tokenizer = forerun::Tokenizer::load(argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status().message() << '\n';
    return 1;
  }
  TokenMasks real(std::make_shared<const VocabularyTrie>(*tokenizer));
  TokenMasks synthetic(
      std::make_shared<const VocabularyTrie>(forerun::grammar::synthetic_tokens(kSample, 2000, 3)));
  TokenMasks small(
      std::make_shared<const VocabularyTrie>(forerun::grammar::synthetic_tokens(kSample, 150, 4)));
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(Json::parse(line), real, synthetic, small).dump() << '\n';
  }
  return 0;
}
