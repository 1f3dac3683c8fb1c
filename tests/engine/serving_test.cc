// Tests what a server needs from an engine, through the public interface: limits and load, defaults
// and seeds, several samples of a prompt, requests that continue where another engine stopped.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/sanitized.h"
#include "forerun/engine.h"
#include "support/on_toy_pair_rig.h"

namespace forerun::testing {
namespace {

class Serving : public OnToyPair {
 protected:
  static void SetUpTestSuite() {
    OnToyPair::SetUpTestSuite();
    // Its own sampling defaults, and a chat template that says what it was given.
    ASSERT_TRUE(write_text(std::filesystem::path(pair_->target()) / "generation_config.json",
                           R"({"do_sample": true, "temperature": 0.7, "top_k": 9, "top_p": 0.95,
                               "repetition_penalty": 1.1})")
                    .ok());
    ASSERT_TRUE(
        write_text(std::filesystem::path(pair_->target()) / "chat_template.jinja",
                   "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
                   "{% if tools %}[{{ tools[0].function.name }}]{% endif %}"
                   "{% if documents %}({{ documents[0].title }}){% endif %}"
                   "{% if enable_thinking is defined and not enable_thinking %}/nothink{% endif %}"
                   "{% if add_generation_prompt %}<assistant>{% endif %}")
            .ok());
  }
  // Greedy and drawn, with and without penalties and stop strings, by all ways to speculate.
  static Request request_of(uint64_t seed) {
    std::mt19937_64 random(seed);
    Request request;
    append_random_tokens(random, 20 + random() % 90, request.prompt_tokens);
    request.max_new_tokens = static_cast<int32_t>(20 + random() % 40);
    request.ignore_eos = true;
    request.sampling.seed = seed;
    request.sampling.temperature = seed % 3 == 0 ? 0.0f : 0.9f;
    request.sampling.repetition_penalty = seed % 2 == 0 ? 1.2f : 1.0f;
    if (seed % 4 < 2) request.sampling.presence_penalty = 0.6f;
    if (seed % 4 == 1) request.sampling.frequency_penalty = 0.3f;
    if (seed % 5 == 0) request.sampling.logprobs = 2;
    // Texts of toys are any bytes: some request ends by one of these, others hold a part back.
    if (seed % 3 != 1) request.stop = {"e", "aX"};
    const char* strategies[] = {"autoregressive", "serial_tree", "parallel_tree", "auto"};
    request.speculation = SpeculationOptions{.strategy = strategies[seed / 2 % 4]};
    return request;
  }

  static void expect_refused(Engine& engine, const Request& request, const std::string& words) {
    const auto stream = engine.submit(request);
    ASSERT_FALSE(stream.ok()) << words;
    EXPECT_EQ(stream.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(stream.status().message().find(words), std::string::npos)
        << stream.status().message();
  }
};

TEST_F(Serving, MoreThanMayWaitAreRefusedWithAHint) {
  EngineOptions options;
  options.max_active_requests = 2;
  options.max_waiting_requests = 3;
  const auto engine = make(options);
  ASSERT_NE(engine, nullptr);
  Request request = request_of(0);
  request.stop.clear();
  request.max_new_tokens = 300;
  std::vector<std::shared_ptr<RequestStream>> streams;
  // Requests may end meanwhile, since the engine does not wait for readers. So more requests are
  // submitted than could ever have ended by then.
  Status refused;
  for (int count = 0; count < 500 && refused.ok(); ++count) {
    auto stream = engine->submit(request);
    refused = stream.status();
    if (stream.ok()) streams.push_back(std::move(*stream));
  }
  ASSERT_EQ(refused.code(), StatusCode::kOverloaded) << refused.message();
  EXPECT_NE(refused.message().find("accepted: up to 5"), std::string::npos) << refused.message();
  EXPECT_GT(refused.retry_after().count(), 0);
  EXPECT_EQ(refused.with_context("here").retry_after(), refused.retry_after());
  EXPECT_GE(streams.size(), 5u);
  const EngineLoad load = engine->load();
  EXPECT_LE(load.running_requests, 2);
  EXPECT_LE(load.running_requests + load.waiting_requests, 5);
  // Once its last event has been read, a request's place is free. This reads the last request,
  // since earlier ones may have ended and left their places to others before a request was refused.
  const Output last = drain(*streams.back());
  EXPECT_TRUE(last.error.ok());
  const auto next = engine->submit(request);
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_EQ(drain(**next).tokens, last.tokens);
  Request many = request;
  many.num_samples = 6;
  expect_refused(*engine, many, "num_samples: found 6; accepted: up to 5");
}

TEST_F(Serving, TheLoadSaysWhatTheEngineHasDone) {
  const auto engine = make();
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->load().output_tokens, 0);
  int64_t prompt_tokens = 0;
  std::map<std::string, StrategyLoad> expected;
  int64_t output_tokens = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Output output = complete(*engine, request_of(seed));
    ASSERT_TRUE(output.error.ok());
    const RequestStats& stats = output.stats;
    StrategyLoad& of = expected[stats.strategy];
    of.output_tokens += stats.output_tokens;
    of.target_steps += stats.target_steps;
    of.drafted_tokens += stats.drafted_tokens;
    of.accepted_tokens += stats.accepted_tokens;
    output_tokens += stats.output_tokens;
    prompt_tokens += stats.prompt_tokens;
  }
  const EngineLoad load = engine->load();
  EXPECT_EQ(load.running_requests, 0);
  EXPECT_EQ(load.waiting_requests, 0);
  EXPECT_EQ(load.ended_requests, 12);
  EXPECT_EQ(load.output_tokens, output_tokens);
  EXPECT_EQ(load.prompt_tokens + load.reused_prompt_tokens, prompt_tokens);
  EXPECT_GT(load.target_kv.total_blocks, 0);
  EXPECT_GT(load.draft_kv.total_blocks, 0);
  EXPECT_EQ(load.target_kv.block_tokens, 64);
  ASSERT_EQ(load.strategies.size(), expected.size());
  for (const StrategyLoad& of : load.strategies) {
    EXPECT_EQ(of.output_tokens, expected[of.strategy].output_tokens) << of.strategy;
    EXPECT_EQ(of.target_steps, expected[of.strategy].target_steps) << of.strategy;
    EXPECT_EQ(of.drafted_tokens, expected[of.strategy].drafted_tokens) << of.strategy;
    EXPECT_EQ(of.accepted_tokens, expected[of.strategy].accepted_tokens) << of.strategy;
  }
}

TEST_F(Serving, WhatIsUnsetIsTheCheckpointsOwn) {
  const auto engine = make();
  ASSERT_NE(engine, nullptr);
  const SamplingParams& own = engine->info().default_sampling;
  ASSERT_EQ(own.temperature, 0.7f);
  ASSERT_EQ(own.top_k, 9);
  Request unset = request_of(1);
  unset.sampling = {};
  unset.sampling.seed = 5;
  Request spelled = unset;
  spelled.sampling.temperature = own.temperature;
  spelled.sampling.top_k = own.top_k;
  spelled.sampling.top_p = own.top_p;
  spelled.sampling.repetition_penalty = own.repetition_penalty;
  const Output defaults = complete(*engine, unset);
  EXPECT_EQ(defaults.tokens, complete(*engine, spelled).tokens);
  // Set to what "off" means is not unset.
  Request off = unset;
  off.sampling.temperature = 1.0f;
  off.sampling.top_k = 0;
  off.sampling.top_p = 1.0f;
  off.sampling.repetition_penalty = 1.0f;
  EXPECT_NE(complete(*engine, off).tokens, defaults.tokens);
}

TEST_F(Serving, ASeedThatIsNotGivenIsDrawnAndTold) {
  const auto engine = make();
  ASSERT_NE(engine, nullptr);
  Request request = request_of(1);
  request.stop.clear();
  request.sampling.seed.reset();
  std::set<uint64_t> seeds;
  for (int count = 0; count < 4; ++count) {
    const Output output = complete(*engine, request);
    EXPECT_LT(output.stats.seed, uint64_t{1} << 53);
    seeds.insert(output.stats.seed);
    Request again = request;
    again.sampling.seed = output.stats.seed;
    EXPECT_EQ(complete(*engine, again).tokens, output.tokens);
  }
  EXPECT_EQ(seeds.size(), 4u);
  request.sampling.seed = 77;
  EXPECT_EQ(complete(*engine, request).stats.seed, 77u);
}

TEST_F(Serving, SamplesAreWhatTheirSeedsGiveAlone) {
  const auto engine = make();
  ASSERT_NE(engine, nullptr);
  const auto queue = std::move(CompletionQueue::create()).value();
  Request request = request_of(2);
  request.prompt_tokens.resize(200, 65);
  request.num_samples = 8;
  const auto handle = engine->submit(request, *queue, 3);
  ASSERT_TRUE(handle.ok()) << handle.status().message();
  std::map<int32_t, Output> samples;
  int finished = 0;
  while (auto completion = queue->next()) {
    EXPECT_EQ(completion->tag, 3u);
    const Event& event = completion->event;
    Output& sample = samples[event.sample_idx];
    sample.tokens.insert(sample.tokens.end(), event.tokens.begin(), event.tokens.end());
    sample.text += event.text;
    finished += event.finished ? 1 : 0;
    EXPECT_EQ(event.last, finished == 8);
    if (event.finished) sample.stats = event.stats;
  }
  ASSERT_EQ(finished, 8);
  int32_t reused = 0;
  for (const auto& [idx, sample] : samples) {
    Request alone = request;
    alone.num_samples = 1;
    alone.share_prefix = false;
    alone.sampling.seed = sample_seed(2, idx);
    EXPECT_EQ(sample.stats.seed, *alone.sampling.seed);
    const Output expected = complete(*engine, alone);
    EXPECT_EQ(sample.tokens, expected.tokens) << idx;
    EXPECT_EQ(sample.text, expected.text) << idx;
    reused += sample.stats.reused_tokens;
  }
  EXPECT_EQ(sample_seed(2, 0), 2u);
  EXPECT_NE(samples[1].tokens, samples[2].tokens);
  // All but one take the prompt's three whole blocks of 64 tokens from another.
  EXPECT_EQ(reused, 7 * 192);
}

TEST_F(Serving, CancellingARequestEndsAllItsSamples) {
  const auto engine = make();
  ASSERT_NE(engine, nullptr);
  Request request = request_of(2);
  request.max_new_tokens = 400;
  request.num_samples = 100;
  const auto stream = engine->submit(request);
  ASSERT_TRUE(stream.ok());
  (*stream)->cancel();
  int finished = 0;
  int cancelled = 0;
  while (const auto event = (*stream)->next()) {
    finished += event->finished ? 1 : 0;
    cancelled += event->finished && event->reason == FinishReason::kCancelled ? 1 : 0;
  }
  EXPECT_EQ(finished, 100);
  EXPECT_GT(cancelled, 0);
  EXPECT_TRUE(releases_its_kv(*engine));
}

// Cut anywhere, a request goes on in another engine token for token and character for character.
TEST_F(Serving, ARequestThatWasCutGoesOnAsItWouldHave) {
  const auto engine = make();
  const auto other = make();
  ASSERT_TRUE(engine && other);
  int by_stop = 0;
  for (uint64_t seed = 0; seed < (kSanitized ? 12 : 40); ++seed) {
    const Request request = request_of(seed);
    // Keeps the events as they came, so that text and tokens can be cut at the same place.
    std::vector<Event> events;
    const auto stream = engine->submit(request);
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    while (auto event = (*stream)->next()) events.push_back(std::move(*event));
    Output whole;
    for (const Event& event : events) {
      whole.tokens.insert(whole.tokens.end(), event.tokens.begin(), event.tokens.end());
      whole.text += event.text;
    }
    by_stop += events.back().reason == FinishReason::kStop ? 1 : 0;
    std::string text;
    Request rest = request;
    for (size_t cut = 0; cut < events.size(); ++cut) {
      if (cut > 0) {
        const Event& event = events[cut - 1];
        text += event.text;
        rest.resume_tokens.insert(rest.resume_tokens.end(), event.tokens.begin(),
                                  event.tokens.end());
      }
      if (cut % 3 != seed % 3 && cut + 1 < events.size()) continue;
      const Output resumed = complete(*other, rest);
      ASSERT_TRUE(resumed.error.ok()) << resumed.error.message();
      std::vector<int32_t> tokens = rest.resume_tokens;
      tokens.insert(tokens.end(), resumed.tokens.begin(), resumed.tokens.end());
      EXPECT_EQ(tokens, whole.tokens) << seed << " cut at " << rest.resume_tokens.size();
      EXPECT_EQ(text + resumed.text, whole.text) << seed << " cut at " << tokens.size();
      EXPECT_EQ(resumed.reason, events.back().reason);
      EXPECT_EQ(resumed.stats.output_tokens, static_cast<int32_t>(whole.tokens.size()));
      EXPECT_EQ(resumed.stats.resumed_tokens, static_cast<int32_t>(rest.resume_tokens.size()));
      EXPECT_EQ(resumed.stats.prompt_tokens, static_cast<int32_t>(request.prompt_tokens.size()));
    }
  }
  EXPECT_GT(by_stop, 1) << "some were to end by a stop string";
}

TEST_F(Serving, WhatHadEndedEndsAtOnce) {
  const auto engine = make();
  ASSERT_NE(engine, nullptr);
  Request request = request_of(6);
  request.stop = {"q"};
  request.resume_tokens = {'a', 'b', 'q'};
  const Output stopped = complete(*engine, request);
  EXPECT_EQ(stopped.reason, FinishReason::kStop);
  EXPECT_TRUE(stopped.tokens.empty());
  EXPECT_EQ(stopped.text, "");
  request.stop = {"bX"};
  request.resume_tokens = {'a', 'b'};
  request.max_new_tokens = 2;
  const Output full = complete(*engine, request);
  EXPECT_EQ(full.reason, FinishReason::kLength);
  EXPECT_EQ(full.text, "b") << "what the stop string had held back";
  EXPECT_EQ(engine->load().output_tokens, 0);
  EXPECT_EQ(engine->load().ended_requests, 2);
}

TEST_F(Serving, ResumptionsThatCannotBeAreRefused) {
  const auto engine = make();
  ASSERT_NE(engine, nullptr);
  Request request = request_of(6);
  request.stop_tokens = {7};
  request.resume_tokens = {1, 7, 2};
  expect_refused(*engine, request, "token 7 at index 1 ended the output (stop), but 1 follow it");
  request.resume_tokens = {1, 256};
  expect_refused(*engine, request, "resume_tokens: found token 256");
  request.resume_tokens.assign(100, 1);
  expect_refused(*engine, request, "resume_tokens: found 100; accepted: up to");
  request.resume_tokens = {1};
  request.num_samples = 2;
  expect_refused(*engine, request, "accepted with resume_tokens: 1");
  request.resume_tokens.clear();
  request.num_samples = 129;
  expect_refused(*engine, request, "num_samples: found 129; accepted: 1 to 128");
}

// Requests do not use KV of requests with another salt, not even of those admitted together with
// them.
TEST_F(Serving, PrefixesAreSharedWithinASalt) {
  const auto engine = make();
  ASSERT_NE(engine, nullptr);
  Request request = request_of(1);
  request.prompt_tokens.resize(200, 7);
  request.stop.clear();
  const auto reused = [&](const char* salt) {
    request.cache_salt = salt;
    const Output output = complete(*engine, request);
    EXPECT_TRUE(output.error.ok()) << output.error.message();
    return output.stats.reused_tokens;
  };
  for (const char* const salt : {"", "a", "b"}) {
    EXPECT_EQ(reused(salt), 0) << salt;
    EXPECT_EQ(reused(salt), 3 * 64) << salt;
  }
  EXPECT_EQ(reused("ab"), 0);
  EXPECT_EQ(reused(""), 3 * 64);
  // Side by side, of a prompt that nobody has read.
  request.prompt_tokens.assign(200, 9);
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (const char* const salt : {"x", "y", "x", "y"}) {
    request.cache_salt = salt;
    auto stream = engine->submit(request);
    ASSERT_TRUE(stream.ok());
    streams.push_back(*stream);
  }
  int32_t together = 0;
  std::vector<int32_t> tokens;
  for (const auto& stream : streams) {
    const Output output = drain(*stream);
    together += output.stats.reused_tokens;
    if (tokens.empty()) tokens = output.tokens;
    EXPECT_EQ(output.tokens, tokens);
  }
  EXPECT_EQ(together, 2 * 3 * 64) << "one of each salt reads the prompt";
}

// The target's log-probability of a token does not depend on the rule that chose it: computed again
// at each position, for all tokens, it is the same.
TEST_F(Serving, LogprobsUnderRejectionAreTheTargetsOwn) {
  EngineOptions options;
  options.max_logprobs = 256;
  const auto engine = make(options);
  ASSERT_NE(engine, nullptr);
  int64_t accepted = 0;
  for (const float temperature : {0.0f, 0.9f}) {
    Request request = request_of(7);
    request.stop.clear();
    request.sampling.temperature = temperature;
    request.sampling.logprobs = 3;
    request.max_new_tokens = 30;
    request.speculation = SpeculationOptions{
        .strategy = "serial_tree", .source = "model", .shape = "2,1,1", .accept = "rejection"};
    const Output output = complete(*engine, request);
    ASSERT_TRUE(output.error.ok()) << output.error.message();
    ASSERT_EQ(output.logprobs.size(), 30u);
    accepted += output.stats.accepted_tokens;
    Request asked = request;
    asked.max_new_tokens = 1;
    asked.sampling.logprobs = 256;
    asked.speculation = SpeculationOptions{.strategy = "autoregressive"};
    for (size_t idx = 0; idx < output.tokens.size(); ++idx) {
      const Output all = complete(*engine, asked);
      ASSERT_EQ(all.logprobs.size(), 1u);
      const std::vector<TokenLogprob>& row = all.logprobs[0];
      const std::vector<TokenLogprob>& told = output.logprobs[idx];
      ASSERT_EQ(told.size(), 4u);
      EXPECT_EQ(told[0].token, output.tokens[idx]);
      const auto same = std::find_if(row.begin() + 1, row.end(), [&](const TokenLogprob& of) {
        return of.token == told[0].token;
      });
      ASSERT_NE(same, row.end());
      EXPECT_EQ(told[0].logprob, same->logprob) << idx;
      for (size_t rank = 1; rank < told.size(); ++rank) {
        EXPECT_EQ(told[rank].token, row[rank].token);
        EXPECT_EQ(told[rank].logprob, row[rank].logprob);
      }
      asked.prompt_tokens.push_back(output.tokens[idx]);
    }
  }
  EXPECT_GT(accepted, 5);
}

TEST_F(Serving, AlternativesHaveALimit) {
  EngineOptions options;
  options.max_logprobs = 4;
  const auto engine = make(options);
  ASSERT_NE(engine, nullptr);
  Request request = request_of(1);
  request.sampling.logprobs = 4;
  EXPECT_TRUE(complete(*engine, request).error.ok());
  request.sampling.logprobs = 5;
  expect_refused(*engine, request, "logprobs: found 5; accepted: -1 (none) to 4");
}

TEST_F(Serving, OptionsOutOfRangeAreRefused) {
  EngineOptions options;
  options.model = pair_->target();
  options.max_waiting_requests = -2;
  EXPECT_NE(Engine::create(options).status().message().find("max_waiting_requests: found -2"),
            std::string::npos);
  options.max_waiting_requests = 0;
  options.max_logprobs = -1;
  EXPECT_NE(Engine::create(options).status().message().find("max_logprobs: found -1"),
            std::string::npos);
}

TEST_F(Serving, ChatTemplatesTakeToolsDocumentsAndVariables) {
  const auto engine = make();
  ASSERT_NE(engine, nullptr);
  ChatPrompt prompt;
  prompt.messages_json = R"([{"role": "user", "content": "hi"}])";
  EXPECT_EQ(*engine->apply_chat_template(prompt), "<user>hi<assistant>");
  EXPECT_EQ(*engine->apply_chat_template(prompt.messages_json), "<user>hi<assistant>");
  prompt.tools_json = R"([{"type": "function", "function": {"name": "look"}}])";
  prompt.documents_json = R"([{"title": "T", "text": "..."}])";
  prompt.variables_json = R"({"enable_thinking": false})";
  prompt.add_generation_prompt = false;
  EXPECT_EQ(*engine->apply_chat_template(prompt), "<user>hi[look](T)/nothink");
  prompt.documents_json = "{}";
  const auto refused = engine->apply_chat_template(prompt);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("documents: found"), std::string::npos)
      << refused.status().message();
}

TEST_F(Serving, ABrokenTemplateIsAnErrorWhereItIsUsed) {
  ToyPair broken(ToySpec{});
  ASSERT_TRUE(write_text(std::filesystem::path(broken.target()) / "chat_template.jinja",
                         "{% for m in messages %}\n{{ m.content")
                  .ok());
  EngineOptions options;
  options.model = broken.target();
  options.devices = "cpu:0";
  const auto engine = Engine::create(options);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const auto rendered = (*engine)->apply_chat_template("[]");
  ASSERT_FALSE(rendered.ok());
  EXPECT_NE(rendered.status().message().find("chat_template.jinja"), std::string::npos)
      << rendered.status().message();
}

TEST_F(Serving, TokensAreBytes) {
  const auto engine = make();
  ASSERT_NE(engine, nullptr);
  ASSERT_EQ(engine->info().vocab_size, 256);
  for (int32_t token = 0; token < 256; ++token) {
    EXPECT_EQ(*engine->token_bytes(token), std::string(1, static_cast<char>(token)));
  }
  EXPECT_EQ(engine->token_bytes(256).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(engine->token_bytes(-1).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace forerun::testing
