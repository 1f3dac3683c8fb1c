// Rows of logits that hold NaN. In a rejected draft token they have no effect; in the text they are
// the request's error, the same one with every strategy; in a draft they end the draft's part in
// the request. The toy models have NaN embeddings for some tokens, so every row that sees such a
// token, as its own or before it, is NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "strategies/every_policy.h"
#include "support/create_engine_rig.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

constexpr int32_t kNewTokens = 20;
// Each request takes every eighth policy, and other ones in each place.
constexpr size_t kTurns = 8;
// Long enough that sources find repeats in it, and longer than a view's budget.
constexpr int32_t kLongPrompt = 210;

// Requests of all kinds that the toys answer: short and long prompts, greedy and drawn.
std::vector<Request> requests() {
  std::vector<Request> all;
  for (const bool is_long : {false, true}) {
    for (const bool draws : {false, true}) {
      Request request;
      const int32_t length = is_long ? kLongPrompt : 20;
      for (int32_t token = 0; token < length; ++token) {
        request.prompt_tokens.push_back(40 + (token * token) % 11);
      }
      request.max_new_tokens = kNewTokens;
      request.ignore_eos = true;
      request.sampling.seed = all.size() + 3;
      request.sampling.temperature = draws ? 0.7f : 0.0f;
      if (draws) request.sampling.repetition_penalty = 1.1f;
      all.push_back(std::move(request));
    }
  }
  return all;
}

EngineOptions on(const std::string& devices, const std::string& draft_devices = "") {
  EngineOptions options;
  options.devices = devices;
  options.draft_devices = draft_devices;
  return options;
}

// An engine on one processor, unless the options say otherwise; with `pair`'s draft if
// `with_draft`.
std::unique_ptr<Engine> engine_of(const ToyPair& pair, bool with_draft,
                                  EngineOptions options = on(one_processor())) {
  options.model = pair.target();
  if (with_draft) options.draft = pair.draft();
  return create_engine(options);
}

// The output of each request by plain decoding on a whole model.
std::vector<Output> plain_outputs(const ToySpec& spec) {
  const ToyPair pair(spec, 0.0f);
  const auto engine = engine_of(pair, /*with_draft=*/false);
  std::vector<Output> outputs;
  if (engine == nullptr) return outputs;
  for (Request request : requests()) {
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    outputs.push_back(complete(*engine, request));
    EXPECT_TRUE(outputs.back().error.ok()) << outputs.back().error.message();
  }
  return outputs;
}

// All tokens that are in no prompt and come out of no request.
std::vector<int32_t> tokens_of_no_text(const std::vector<Output>& outputs) {
  std::set<int32_t> in_texts;
  for (const Request& request : requests()) {
    in_texts.insert(request.prompt_tokens.begin(), request.prompt_tokens.end());
  }
  for (const Output& output : outputs) {
    in_texts.insert(output.tokens.begin(), output.tokens.end());
  }
  std::vector<int32_t> others;
  for (int32_t token = 0; token < 256; ++token) {
    if (!in_texts.contains(token)) others.push_back(token);
  }
  return others;
}

// Messages such as "target, sequence 7: ..." have another number for each request.
std::string without_sequence(const std::string& message) {
  const size_t begin = message.find("sequence ");
  const size_t end = message.find(':', begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || end == std::string::npos) return message;
  return message.substr(0, begin) + message.substr(end);
}

struct Where {
  const char* name;
  EngineOptions options;
};

// One thread; both models at the same time; a target cut into stages; a group of two devices, which
// share the vocabulary.
std::vector<Where> places() {
  std::vector<Where> all = {{"one processor", on(one_processor())}};
  EngineOptions cut = on(one_processor());
  cut.stages = 2;
  all.push_back({"two stages", cut});
  const std::vector<std::string> two = two_processors();
  if (two.empty()) return all;
  all.push_back({"draft beside", on(two[0], two[1])});
  EngineOptions cut_beside = cut;
  cut_beside.devices = two[0];
  cut_beside.draft_devices = two[1];
  all.push_back({"two stages, draft beside", cut_beside});
  return all;
}

std::vector<SpeculationOptions> policies_for(const Request& request) {
  return request.sampling.temperature > 0.0f ? every_exact_policy() : every_policy();
}

class FaultyRows : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    spec_ = new ToySpec(drafted_toy());
    plain_ = new std::vector<Output>(plain_outputs(*spec_));
  }
  static void TearDownTestSuite() {
    delete spec_;
    delete plain_;
  }
  static ToySpec draft_spec() {
    ToySpec draft = *spec_;
    draft.perturbation = 0.15f;
    return draft;
  }

  // Runs every request by a part of the policies, all of them in turn, in every place; `check` gets
  // the request's number.
  template <class Check>
  void run_all(const ToyPair& pair, const Check& check) {
    size_t turn = 0;
    for (const Where& where : places()) {
      const auto engine = engine_of(pair, /*with_draft=*/true, where.options);
      ASSERT_NE(engine, nullptr);
      const std::vector<Request> all = requests();
      for (size_t idx = 0; idx < all.size(); ++idx) {
        const std::vector<SpeculationOptions> policies = policies_for(all[idx]);
        for (size_t at = turn++ % kTurns; at < policies.size(); at += kTurns) {
          const SpeculationOptions& policy = policies[at];
          SCOPED_TRACE(std::string(where.name) + ", " + policy_name(policy) + ", request " +
                       std::to_string(idx));
          Request request = all[idx];
          request.speculation = policy;
          check(idx, complete(*engine, request));
          if (HasFailure()) return;
        }
      }
      EXPECT_TRUE(releases_its_kv(*engine));
    }
  }

  // Expects the tokens that plain decoding gives on a whole target; returns how many guesses were
  // wrong.
  int64_t expect_plain(const ToyPair& pair) {
    int64_t refused = 0;
    run_all(pair, [&](size_t idx, const Output& output) {
      EXPECT_TRUE(output.error.ok()) << output.error.message();
      EXPECT_EQ(output.tokens, (*plain_)[idx].tokens);
      refused += output.stats.drafted_tokens - output.stats.accepted_tokens;
    });
    return refused;
  }

  inline static ToySpec* spec_ = nullptr;
  inline static std::vector<Output>* plain_ = nullptr;
};

TEST_F(FaultyRows, OfRefusedGuessesAreNothing) {
  ToySpec target = *spec_;
  target.nan_embeddings = tokens_of_no_text(*plain_);
  ASSERT_GT(target.nan_embeddings.size(), 100u);
  EXPECT_GT(expect_plain(ToyPair(target, draft_spec())), 300);
}

TEST_F(FaultyRows, OfADraftEndTheDraftsPart) {
  ToySpec draft = draft_spec();
  // Some that it guesses, and from the middle of the text on all that it sees.
  draft.nan_embeddings = tokens_of_no_text(*plain_);
  for (const Output& output : *plain_) draft.nan_embeddings.push_back(output.tokens[12]);
  expect_plain(ToyPair(*spec_, draft));
}

TEST_F(FaultyRows, OfTheTextAreItsErrorByEveryStrategy) {
  ToySpec target = *spec_;
  for (const Output& output : *plain_) target.nan_embeddings.push_back(output.tokens[12]);
  const ToyPair pair(target, draft_spec());
  std::vector<Output> expected;
  {
    const auto engine = engine_of(pair, /*with_draft=*/false);
    ASSERT_NE(engine, nullptr);
    for (Request request : requests()) {
      request.speculation = SpeculationOptions{.strategy = "autoregressive"};
      expected.push_back(complete(*engine, request));
      const Output& plain = expected.back();
      EXPECT_EQ(plain.reason, FinishReason::kError);
      EXPECT_EQ(plain.error.code(), StatusCode::kInvalidArgument);
      EXPECT_NE(plain.error.message().find("NaN"), std::string::npos) << plain.error.message();
      ASSERT_LE(plain.tokens.size(), 13u);
    }
  }
  run_all(pair, [&](size_t idx, const Output& output) {
    EXPECT_EQ(output.reason, FinishReason::kError);
    EXPECT_EQ(output.tokens, expected[idx].tokens);
    EXPECT_EQ(output.error.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(without_sequence(output.error.message()),
              without_sequence(expected[idx].error.message()));
  });
}

// Rule `rejection` draws other tokens than plain decoding, from the same distribution: a request
// ends with the error exactly where its text has come to a token of NaN.
TEST_F(FaultyRows, UnderRuleRejectionAreItsErrorWhereTheWalkNeedsThem) {
  ToySpec target = *spec_;
  for (int32_t token = 0; token < 256; token += 9) target.nan_embeddings.push_back(token);
  std::erase_if(target.nan_embeddings, [](int32_t token) { return token >= 40 && token < 51; });
  const std::set<int32_t> faulty(target.nan_embeddings.begin(), target.nan_embeddings.end());
  const ToyPair pair(target, draft_spec());
  const auto engine = engine_of(pair, /*with_draft=*/true);
  ASSERT_NE(engine, nullptr);
  int errors = 0;
  int64_t drafted = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Request request = requests()[1];
    request.sampling.seed = seed;
    request.speculation = SpeculationOptions{.strategy = "serial_tree",
                                             .shape = seed % 2 == 0 ? "chain" : "1,2,1",
                                             .accept = "rejection"};
    const Output output = complete(*engine, request);
    drafted += output.stats.accepted_tokens;
    const auto first = std::find_if(output.tokens.begin(), output.tokens.end(),
                                    [&](int32_t token) { return faulty.contains(token); });
    if (output.error.ok()) {
      EXPECT_TRUE(first == output.tokens.end() || first == output.tokens.end() - 1);
      continue;
    }
    ++errors;
    EXPECT_EQ(output.error.code(), StatusCode::kInvalidArgument) << output.error.message();
    EXPECT_TRUE(first == output.tokens.end() - 1);
    const size_t position = request.prompt_tokens.size() + output.tokens.size();
    EXPECT_NE(output.error.message().find("position " + std::to_string(position)),
              std::string::npos)
        << output.error.message();
  }
  EXPECT_GT(errors, 5);
  EXPECT_GT(drafted, 20);
}

// A group of devices: each holds a part of the vocabulary, and finds what any of them finds.
TEST_F(FaultyRows, OfAGroupAsOfOneDevice) {
  const std::vector<std::string> two = two_processors();
  if (two.empty()) GTEST_SKIP() << "one processor";
  ToySpec target = *spec_;
  target.nan_embeddings = tokens_of_no_text(*plain_);
  const ToyPair whole(*spec_, draft_spec());
  const ToyPair faulty(target, draft_spec());
  const std::string devices = two[0] + "," + two[1];
  const auto sound = engine_of(whole, /*with_draft=*/false, on(devices));
  const auto engine = engine_of(faulty, /*with_draft=*/true, on(devices));
  ASSERT_NE(sound, nullptr);
  ASSERT_NE(engine, nullptr);
  for (Request request : requests()) {
    request.max_new_tokens = 12;
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    const Output plain = complete(*sound, request);
    // Each number of devices has bits of its own, so the text may come to a token of NaN; then it
    // ends with an error.
    const Output alone = complete(*engine, request);
    for (const char* strategy : {"serial_tree", "parallel_tree", "sparse_self", "pipelined"}) {
      request.speculation = SpeculationOptions{.strategy = strategy};
      if (request.speculation->strategy == "sparse_self") request.speculation->view_budget = 256;
      const Output output = complete(*engine, request);
      EXPECT_EQ(output.tokens, alone.tokens) << strategy;
      EXPECT_EQ(output.error.code(), alone.error.code()) << output.error.message();
      EXPECT_EQ(without_sequence(output.error.message()), without_sequence(alone.error.message()));
    }
    if (alone.error.ok()) {
      EXPECT_EQ(alone.tokens, plain.tokens);
    }
  }
}

// KV of NaN that no row sees any more lies in blocks that other requests get.
TEST_F(FaultyRows, LeaveNothingInKvThatOthersGet) {
  ToySpec target = *spec_;
  target.nan_embeddings = tokens_of_no_text(*plain_);
  const ToyPair pair(target, draft_spec());
  for (const bool shares : {true, false}) {
    EngineOptions options = on(one_processor());
    options.share_prefixes = shares;
    options.max_active_requests = 3;
    options.max_context_tokens = 256;  // few blocks, so that all have held NaN
    const auto engine = engine_of(pair, /*with_draft=*/true, options);
    ASSERT_NE(engine, nullptr);
    for (int round = 0; round < 3; ++round) {
      // Prompts of NaN alone, as long as the others, end with an error.
      Request spoiler = requests().back();
      spoiler.prompt_tokens.assign(kLongPrompt, target.nan_embeddings[static_cast<size_t>(round)]);
      std::vector<std::shared_ptr<RequestStream>> streams;
      std::vector<size_t> numbers;
      for (int copy = 0; copy < 3; ++copy) streams.push_back(engine->submit(spoiler).value());
      for (auto& stream : streams) {
        EXPECT_EQ(drain(*stream).error.code(), StatusCode::kInvalidArgument);
      }
      streams.clear();
      const std::vector<Request> all = requests();
      for (size_t idx = 0; idx < all.size(); ++idx) {
        for (const char* strategy : {"serial_tree", "sparse_self", "pipelined"}) {
          Request request = all[idx];
          request.speculation = SpeculationOptions{.strategy = strategy};
          if (request.speculation->strategy == "sparse_self") {
            request.speculation->view_budget = 192;
          }
          streams.push_back(engine->submit(request).value());
          numbers.push_back(idx);
        }
      }
      for (size_t stream = 0; stream < streams.size(); ++stream) {
        const Output output = drain(*streams[stream]);
        EXPECT_TRUE(output.error.ok()) << output.error.message();
        EXPECT_EQ(output.tokens, (*plain_)[numbers[stream]].tokens) << "round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace forerun::testing
