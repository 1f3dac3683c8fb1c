// Views of the KV: drafting through every one of them, with every budget, depth and batch, gives
// plain decoding's tokens, whatever the lengths of the contexts that share Steps, and whoever
// enters and leaves meanwhile.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lossless/lossless_cases.h"
#include "views/view_table.h"

namespace forerun::testing {
namespace {

Precision with_long_context(Precision precision) {
  precision.spec.max_position = 1024;
  return precision;
}

// Contexts below the budget, at the ends of blocks and well beyond; lengths and ends of their own.
// The second one is long, since of a large batch it is the one that a draft model guesses.
std::vector<Request> requests_of(uint64_t seed, bool sampled) {
  std::vector<Request> requests;
  for (const int32_t length : {150, 449, 256, 303, 191, 640, 800}) {
    Request request = request_of(seed + static_cast<uint64_t>(length), sampled);
    request.prompt.clear();
    for (int32_t i = 0; i < length; ++i) {
      // Repetitive, with a different beginning each.
      request.prompt_tokens.push_back(97 +
                                      (i < 8 ? (length + i * i) % 20 : (i % 13 + i / 100) % 20));
    }
    set_length(request, 12 + 7 * static_cast<int32_t>(requests.size()));
    request.speculation = SpeculationOptions{.strategy = "autoregressive"};
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Counts {
  int64_t accepted = 0, rejected = 0;

  void add(const Output& output) {
    accepted += output.stats.accepted_tokens;
    rejected += output.stats.drafted_tokens - output.stats.accepted_tokens;
  }
};

// Some come while others run, and one leaves in the middle of its text.
void expect_all_give(Engine& engine, std::vector<Request> requests,
                     const std::vector<Output>& plain, const std::string& what, Counts& counts) {
  Request leaver = requests.back();
  leaver.max_new_tokens = 200;
  const auto leaving = engine.submit(leaver);
  ASSERT_TRUE(leaving.ok()) << leaving.status().message();
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (size_t idx = 0; idx < requests.size(); ++idx) {
    if (idx == requests.size() / 2) {
      ASSERT_TRUE((*leaving)->next().has_value());
      (*leaving)->cancel();
    }
    const auto stream = engine.submit(requests[idx]);
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    streams.push_back(*stream);
  }
  for (size_t idx = 0; idx < streams.size(); ++idx) {
    const Output output = drain(*streams[idx]);
    counts.add(output);
    expect_same(plain[idx], output, what + " " + describe(requests[idx]));
  }
}

// Requests and what plain decoding answers them, which every view must.
struct Plain {
  std::vector<Request> requests;
  std::vector<Output> outputs;
};

class LosslessViews : public ::testing::TestWithParam<size_t> {
 protected:
  // The plain outputs of the requests of `seed`, decoded once.
  const Plain& plain_of(Engine& engine, uint64_t seed);
  // Runs one view with every budget and depth, or the part of them that is to run; with a
  // `source`, as a hierarchy.
  void expect_plain_tokens(Engine& engine, const std::string& view, const std::string& source,
                           const std::vector<size_t>& batches, Counts& counts);

 private:
  std::map<uint64_t, Plain> plain_;
  size_t combination_ = GetParam();
};

const Plain& LosslessViews::plain_of(Engine& engine, uint64_t seed) {
  const auto [found, is_new] = plain_.try_emplace(seed);
  Plain& plain = found->second;
  if (!is_new) return plain;
  plain.requests = requests_of(seed, seed % 3 != 0);
  for (const Request& request : plain.requests) plain.outputs.push_back(complete(engine, request));
  return plain;
}

void LosslessViews::expect_plain_tokens(Engine& engine, const std::string& view,
                                        const std::string& source,
                                        const std::vector<size_t>& batches, Counts& counts) {
  uint64_t seed = 0;
  for (const int32_t budget : {192, 320}) {
    for (const int32_t depth : {1, 3, 6}) {
      ++seed;
      if (!runs(combination_++)) continue;
      const auto& [requests, plain] = plain_of(engine, seed);
      for (const size_t batch : batches) {
        for (size_t begin = 0; begin < requests.size(); begin += batch) {
          const size_t end = std::min(begin + batch, requests.size());
          std::vector<Request> group(requests.begin() + static_cast<std::ptrdiff_t>(begin),
                                     requests.begin() + static_cast<std::ptrdiff_t>(end));
          const std::vector<Output> expected(plain.begin() + static_cast<std::ptrdiff_t>(begin),
                                             plain.begin() + static_cast<std::ptrdiff_t>(end));
          for (size_t idx = 0; idx < group.size(); ++idx) {
            // In the batch of all requests one decodes plainly, one speculates with the draft
            // model.
            const size_t place = batch == requests.size() ? idx : 2;
            if (place == 0) continue;
            group[idx].speculation =
                SpeculationOptions{.strategy = place == 1 ? "serial_tree" : "sparse_self",
                                   .view = view,
                                   .view_budget = budget};
            if (place == 1) continue;
            group[idx].speculation->draft_depth = depth;
            if (source.empty()) continue;
            group[idx].speculation->source = source;
            group[idx].speculation->draft_width = 2 + static_cast<int32_t>((seed + idx) % 4);
          }
          ASSERT_NO_FATAL_FAILURE(expect_all_give(
              engine, group, expected,
              precisions()[GetParam()].name + " " + view + " " + std::to_string(budget) +
                  " depth " + std::to_string(depth) + " batch " + std::to_string(batch),
              counts));
        }
      }
    }
  }
}

TEST_P(LosslessViews, EveryBudgetDepthSourceAndBatchEqualsPlainDecoding) {
  const Precision precision = with_long_context(precisions()[GetParam()]);
  if (precision.spec.sliding_window > 0) GTEST_SKIP() << "a window and a view exclude each other";
  const size_t formats = precision.spec.gguf_formats.size();
  const bool has_some_formats = formats > 0 && formats < block_formats().size();
  const bool is_as_bf16 =
      precision.weights == "int8_head" || has_some_formats || precision.spec.layout;
  if (is_as_bf16) GTEST_SKIP() << "views choose by keys, as with bf16";
  const bool is_int4 = precision.spec.quantization == ToySpec::Quantization::kAwq;
  const ToyPair pair(precision.spec, is_int4 ? 0.04f : 0.15f);
  const auto engine = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(engine, nullptr);
  const size_t all = requests_of(1, true).size();
  for (const KvViewEntry& view : view_table()) {
    if (on_gpu() && view.needs == KvViewNeeds::kQuantizedKeys) continue;  // refused there
    // The views must have helped, and must have been wrong.
    Counts alone;
    expect_plain_tokens(*engine, view.name, "", {1, 3, all}, alone);
    EXPECT_GT(alone.accepted, in_part(500)) << view.name;
    EXPECT_GT(alone.rejected, in_part(500)) << view.name;
    Counts hierarchies;
    for (const char* source : {"model", "suffix", "model+ngram+suffix"}) {
      expect_plain_tokens(*engine, view.name, source, {3, all}, hierarchies);
    }
    EXPECT_GT(hierarchies.accepted, in_part(1000)) << view.name;
    EXPECT_GT(hierarchies.rejected, in_part(1000)) << view.name;
  }
  EXPECT_TRUE(releases_its_kv(*engine));
}

INSTANTIATE_TEST_SUITE_P(Precisions, LosslessViews,
                         ::testing::Range(size_t{0}, precisions().size()),
                         [](const auto& tested) { return precisions()[tested.param].name; });

// Beside requests that reach their length, are cancelled or fail, a request gives the same tokens
// as alone and accepts about as many guesses: its first round may be shorter, which moves later
// ones.
TEST(LosslessViewsOfABatch, ThoseThatEndDoNotDisturbTheOthers) {
  const Precision precision = with_long_context(precisions().front());
  const ToyPair pair(precision.spec);
  const auto engine = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(engine, nullptr);
  for (const KvViewEntry& view : view_table()) {
    if (on_gpu() && view.needs == KvViewNeeds::kQuantizedKeys) continue;  // refused there
    std::vector<Request> requests = requests_of(3, true);
    for (Request& request : requests) {
      request.max_new_tokens = 60;
      request.speculation =
          SpeculationOptions{.strategy = "sparse_self", .draft_depth = 4, .view = view.name};
      request.speculation->view_budget = 192;
    }
    std::vector<Output> alone;
    for (const Request& request : requests) alone.push_back(complete(*engine, request));
    Request ends_early = requests[4];
    set_length(ends_early, 5);
    Request fails = requests[5];
    fails.max_new_tokens = 150;
    fails.deadline = std::chrono::milliseconds(1);
    Request is_cancelled = requests[6];
    is_cancelled.max_new_tokens = 150;
    std::vector<std::shared_ptr<RequestStream>> passing;
    for (const Request& request : {ends_early, fails, is_cancelled}) {
      passing.push_back(engine->submit(request).value());
    }
    std::vector<std::shared_ptr<RequestStream>> streams;
    for (const Request& request : requests) streams.push_back(engine->submit(request).value());
    ASSERT_TRUE(passing[2]->next().has_value());
    passing[2]->cancel();
    for (size_t idx = 0; idx < streams.size(); ++idx) {
      SCOPED_TRACE(std::string(view.name) + " request " + std::to_string(idx));
      const Output output = drain(*streams[idx]);
      expect_same(alone[idx], output, describe(requests[idx]));
      EXPECT_GT(output.stats.draft_steps, 0);
      const auto accepted = static_cast<double>(output.stats.accepted_tokens);
      const auto accepted_alone = static_cast<double>(alone[idx].stats.accepted_tokens);
      EXPECT_NEAR(accepted, accepted_alone, 4 + 0.15 * accepted_alone);
    }
    EXPECT_EQ(drain(*passing[0]).tokens.size(), 5u);
    EXPECT_EQ(drain(*passing[1]).error.code(), StatusCode::kDeadlineExceeded);
    EXPECT_EQ(drain(*passing[2]).reason, FinishReason::kCancelled);
  }
  EXPECT_TRUE(releases_its_kv(*engine));
}

// A draft model that keeps a window of every request, whatever the strategy: its memory has room
// for nothing else, and the tokens are plain decoding's.
TEST(LosslessDraftWindow, EveryPolicyEqualsPlainDecoding) {
  const Precision precision = with_long_context(precisions().front());
  const ToyPair pair(precision.spec);
  EngineOptions options;
  options.max_active_requests = 40;
  options.draft_window = 192;
  const auto engine =
      make_engine(pair.target(), pair.draft(), precision, one_processor(), "", options);
  ASSERT_NE(engine, nullptr);
  const KvLoad target = engine->load().target_kv;
  const KvLoad draft = engine->load().draft_kv;
  EXPECT_LT(2 * draft.total_blocks, target.total_blocks);
  Counts counts;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    std::vector<Request> requests;
    std::vector<Output> plain;
    for (Request& request : requests_of(seed, seed > 0)) {
      const Output expected = complete(*engine, request);
      ASSERT_TRUE(expected.error.ok()) << expected.error.message();
      for (Request& by_policy : slice(by_every_policy(request, precision), 5, seed)) {
        requests.push_back(std::move(by_policy));
        plain.push_back(expected);
      }
    }
    const std::vector<Output> outputs = complete_together(*engine, requests);
    ASSERT_EQ(outputs.size(), requests.size());
    for (size_t idx = 0; idx < outputs.size(); ++idx) {
      expect_same(plain[idx], outputs[idx], "draft window " + describe(requests[idx]));
      counts.add(outputs[idx]);
    }
  }
  EXPECT_GT(counts.accepted, 500);
  EXPECT_GT(counts.rejected, 500);
  EXPECT_TRUE(releases_its_kv(*engine));
}

// Requests are refused by themselves, by a message that says what is accepted.
TEST(LosslessViewsRefusals, DisturbNobody) {
  Precision precision = precisions().front();
  const ToyPair pair(precision.spec);
  const auto engine = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(engine, nullptr);
  Request request = request_of(1, true);
  request.speculation = SpeculationOptions{.strategy = "sparse_self", .view_budget = 256};
  const Output refused = complete(*engine, request);
  EXPECT_EQ(refused.error.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.error.message().find("less than the context's 256 tokens"), std::string::npos)
      << refused.error.message();
  request.speculation->view_budget = 192;
  EXPECT_TRUE(complete(*engine, request).error.ok());

  precision.spec.sliding_window = 24;
  precision.spec.family = "mistral";
  const ToyPair windows(precision.spec);
  const auto with_window = make_engine(windows.target(), windows.draft(), precision);
  ASSERT_NE(with_window, nullptr);
  const Output window = complete(*with_window, request);
  EXPECT_NE(window.error.message().find("sliding window"), std::string::npos)
      << window.error.message();
}

TEST(LosslessDraftWindow, IsRefusedWhereItCannotBeKept) {
  Precision precision = precisions().front();
  const ToyPair pair(precision.spec);
  precision.spec.sliding_window = 24;
  precision.spec.family = "mistral";
  const ToyPair windows(precision.spec);
  const auto refusal = [](const ToyPair& models, bool with_draft, int32_t window) {
    EngineOptions options;
    options.model = models.target();
    if (with_draft) options.draft = models.draft();
    options.draft_window = window;
    return Engine::create(options).status().message();
  };
  EXPECT_NE(refusal(pair, true, 100).find("draft_window"), std::string::npos);
  EXPECT_NE(refusal(pair, true, 100).find("accepted with view streaming_llm: at least 192"),
            std::string::npos);
  EXPECT_NE(refusal(pair, true, -1).find("accepted with view streaming_llm: at least 192"),
            std::string::npos);
  EXPECT_NE(refusal(pair, false, 192).find("there is no draft model"), std::string::npos);
  EXPECT_NE(refusal(windows, true, 192).find("sliding window"), std::string::npos);
}

}  // namespace
}  // namespace forerun::testing
