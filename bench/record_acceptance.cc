// Records, for simulated machines, a draft's guesses along a target's own greedy text, and its
// guesses beside the text that a wide tree would request.
//
//   record_acceptance MODEL DRAFT PROMPTS.jsonl OUT.json [PROMPTS] [TOKENS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "exec/real_executor.h"
#include "runner/model_pair.h"
#include "runner/workload.h"
#include "simulation/offline_runner.h"
#include "simulation/recorded_acceptance.h"
#include "simulation/recording_runner.h"
#include "strategies/strategy_table.h"

namespace forerun {
namespace {

constexpr int32_t kGuesses = 16;
constexpr int32_t kBranchGuesses = 8;
constexpr int64_t kKvBlocks = 64;

OfflineOptions offline_options(const SpeculationOptions& strategy) {
  return {.max_active = 1,
          .clock = [] { return 0.0; },
          .make_strategy = [plan = resolve_speculation(strategy).value()](
                               size_t) { return plan->make_strategy({}); }};
}

// Returns options of a tree as wide and deep as the simulated strategies' trees. If a strategy
// requests other nodes, the guesses of another position of the text are used.
SpeculationOptions wide_tree(const char* strategy) {
  SpeculationOptions options{.strategy = strategy};
  options.shape = "best";
  options.verify_tokens = options.draft_width = 8;
  options.draft_depth = 6;
  return options;
}

Result<RecordedText> record(bench::ModelPair& pair, Executor& executor, RecordingRunner& draft,
                            const std::string& prompt, int32_t new_tokens) {
  OfflineRequest request;
  FORERUN_ASSIGN_OR_RETURN(
      request.prompt, pair.models[0]->tokenizer().encode(prompt, {.add_special_tokens = true}));
  request.new_tokens = new_tokens;
  request.sampling.temperature = 0.0f;
  SpeculationOptions plain{.strategy = "autoregressive"};
  FORERUN_ASSIGN_OR_RETURN(const std::vector<OfflineResult> results,
                           run_offline(executor, {&request, 1}, offline_options(plain)));
  std::vector<TokenId> tokens = request.prompt;
  tokens.insert(tokens.end(), results[0].tokens.begin(), results[0].tokens.end());
  SequenceSpec spec;
  spec.sampling = request.sampling;
  spec.prompt_tokens = static_cast<int32_t>(request.prompt.size());
  spec.max_tokens = static_cast<int32_t>(tokens.size());
  FORERUN_ASSIGN_OR_RETURN(RecordedText text, record_acceptance(executor, 1, spec, tokens,
                                                                spec.prompt_tokens, kGuesses));
  for (const char* strategy : {"serial_tree", "parallel_tree"}) {
    FORERUN_ASSIGN_OR_RETURN(
        const std::vector<OfflineResult> again,
        run_offline(executor, {&request, 1}, offline_options(wide_tree(strategy))));
    if (again[0].tokens != results[0].tokens) {
      return Status(StatusCode::kInternal, "speculation changed the output");
    }
  }
  draft.take_branches(kBranchGuesses, text);
  return text;
}

Status run(int argc, char** argv) {
  if (argc < 5) {
    return Status(StatusCode::kInvalidArgument,
                  "usage: record_acceptance MODEL DRAFT PROMPTS.jsonl OUT.json [PROMPTS] [TOKENS]");
  }
  const int prompts = argc > 5 ? std::atoi(argv[5]) : 4;
  const int32_t new_tokens = argc > 6 ? std::max(2, std::atoi(argv[6])) : 128;
  FORERUN_ASSIGN_OR_RETURN(bench::ModelPair pair,
                           bench::ModelPair::load(argv[1], argv[2], {kKvBlocks, kKvBlocks}));
  RealExecutorOptions options;
  auto recording = std::make_unique<RecordingRunner>(pair.make_runner(Role::kDraft));
  RecordingRunner& heard = *recording;
  options.runners = {pair.make_runner(Role::kTarget), std::move(recording)};
  RealExecutor executor(std::move(options));
  FORERUN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                           bench::read_prompts(argv[3], prompts));
  RecordedAcceptance recorded(pair.live_vocab);
  for (const std::string& text : texts) {
    FORERUN_ASSIGN_OR_RETURN(RecordedText recorded_text,
                             record(pair, executor, heard, text, new_tokens));
    FORERUN_RETURN_IF_ERROR(recorded.add(std::move(recorded_text)));
  }
  return recorded.save(argv[4]);
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  const forerun::Status status = forerun::run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "record_acceptance: %s\n", status.message().c_str());
  return 1;
}
