// Measures strategies for batches of long contexts on this machine at a given acceptance rate: runs
// real Steps of real models and replaces their answers by those of an acceptance model
// (simulation/replayed_runner.h). Prompts are not read, so that 24 contexts of 32,000 tokens take
// seconds.
//
//   replay_batches --model DIR [--draft DIR] [--devices cuda:0] --requests 24 --context 32000
//
// Lists of requests and contexts form a grid; cells with more tokens than --most-tokens are
// skipped.
//
// Columns are those of MagicDec's tables: γ; milliseconds of a draft Step (T_D), of a verification
// of γ + 1 rows per sequence (T_V) and of a plain Step (T_AR); tokens per round (Ω); time per token
// of every sequence (T_SD); and x, T_AR over T_SD, both measured from the time when all sequences
// decode until the first has all its tokens.
//
// In a hierarchy (sparse_self checks the draft model's tokens through a view) sequences drift
// apart, so one Step carries checks of some sequences and verifications of others. T_D is then a
// Step of the draft model, T_V any Step of the target. The draft model's errors include those of
// the view: the view agrees with a share of draft_acceptance + 1 - acceptance of its draft tokens.
//
// A trained head as --draft is measured in chains (--draft-depths) and in trees of a fixed size
// (--trees ROWSxWIDTHxDEPTH). Its KV begins at another position than the target's, so tokens and
// guesses are sampled by position instead of by history; requests begin at different positions.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/clocks.h"
#include "base/status_macros.h"
#include "engine/load/load_models.h"
#include "engine/load/make_executor.h"
#include "engine/load/model_facts.h"
#include "engine/load/models_to_load.h"
#include "engine/load/opened_model.h"
#include "kernels/attention/attention.h"
#include "runner/record_rows.h"
#include "simulation/offline_runner.h"
#include "strategies/speculation_plan.h"

namespace forerun {
namespace {

// Answers that depend only on the position: all texts are equal, and so are a draft's guesses.
class PositionalAcceptance : public AcceptanceSource {
 public:
  explicit PositionalAcceptance(AcceptanceModel model) : model_(std::move(model)) {}
  int32_t vocab() const override { return model_.vocab; }
  TokenId target_token(uint64_t, int32_t position) const override {
    return model_.target_token(history_at(position));
  }
  void draft_guesses(uint64_t, int32_t position, int32_t count,
                     std::vector<Candidate>* out) const override {
    *out = model_.draft_top(history_at(position), count, position);
  }

 private:
  static uint64_t history_at(int32_t position) {
    return mix_hash(0, static_cast<uint64_t>(position));
  }

  AcceptanceModel model_;
};

struct Arguments {
  std::string model, draft, devices, json, draft_weights;
  std::vector<int32_t> requests = {24};
  std::vector<int32_t> contexts = {32000};
  int64_t max_tokens = 0;  // of a cell, summed over all requests' contexts; 0: any
  int32_t tokens = 96;     // of each request
  double acceptance = 0.89;
  double draft_acceptance = 0.66;
  int32_t repeats = 1;
  std::vector<int32_t> budgets = {2048};
  std::vector<int32_t> depths = {1, 2, 3, 4, 5, 6};
  std::vector<int32_t> draft_depths = {1, 2, 3};
  std::vector<std::string> trees = {};
  std::vector<double> rank_hits = {};  // of a head's guesses after the first
  std::vector<int32_t> hierarchy_depths = {};
  std::vector<int32_t> hierarchy_widths = {4};
  int32_t draft_window = 0;  // EngineOptions::draft_window
};

struct Cell {
  int32_t requests = 0;
  int32_t context = 0;
  int64_t tokens() const { return int64_t{requests} * context; }
};

std::vector<Cell> cells_of(const Arguments& arguments) {
  std::vector<Cell> cells;
  for (const int32_t context : arguments.contexts) {
    for (const int32_t requests : arguments.requests) {
      const Cell cell = {requests, context};
      if (arguments.max_tokens == 0 || cell.tokens() <= arguments.max_tokens) {
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

struct Row {
  Cell cell;
  std::string name;
  int32_t depth = 0;
  int32_t width = 0;  // rows of a check, leaves of a tree's draft Step; 0: neither
  int32_t rows = 0;   // of a tree
  int32_t budget = 0;
  double acceptance = 0.0;
  double draft_ms = 0.0, verify_ms = 0.0;
  double tokens_a_round = 1.0;
  double tokens_per_s = 0.0;
  double speed_up = 0.0;  // over plain decoding of the same cell
};

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

AcceptanceModel acceptance_of(double chance, int32_t vocab) {
  AcceptanceModel model;
  model.vocab = model.draft_vocab = vocab;
  model.rank_hit = {chance};
  model.spread = 0.0;
  return model;
}

class Bench {
 public:
  // Allocates memory for the largest of the cells, which run one at a time.
  static Result<std::unique_ptr<Bench>> load(const Arguments& arguments,
                                             const std::vector<Cell>& cells) {
    std::unique_ptr<Bench> bench(new Bench(arguments));
    EngineOptions& options = bench->options_;
    options.model = arguments.model;
    options.draft = arguments.draft;
    options.draft_window = arguments.draft_window;
    if (!arguments.draft_weights.empty()) options.draft_weights = arguments.draft_weights;
    int64_t tokens = 0;
    for (const Cell& cell : cells) {
      const int32_t longest = cell.context + arguments.tokens + kKvBlockTokens;
      options.max_context_tokens = std::max(options.max_context_tokens, longest);
      options.max_active_requests = std::max(options.max_active_requests, cell.requests);
      // Five more blocks per request, for the tree and partly filled blocks.
      tokens = std::max(tokens, int64_t{cell.requests} * (longest + 5 * kKvBlockTokens));
    }
    FORERUN_ASSIGN_OR_RETURN(OpenedModels opened, open_models(options));
    bench->opened_ = std::make_unique<OpenedModels>(std::move(opened));
    for (const OpenedModel* model : std::array<const OpenedModel*, kNumRoles>{
             &bench->opened_->target, bench->opened_->draft_or_null()}) {
      // If the draft has a window, the engine divides the devices' memory between the two models.
      if (model == nullptr || arguments.draft_window > 0) continue;
      // Keys and values, bf16.
      const ModelConfig& config = model->checkpoint.config();
      options.kv_memory_bytes += int64_t{4} * config.num_layers * config.num_kv_heads *
                                 padded_head_dim(config.head_dim) * tokens;
    }
    FORERUN_ASSIGN_OR_RETURN(const Placement placement, place_models(arguments.devices, ""));
    FORERUN_ASSIGN_OR_RETURN(const ModelsToLoad to_load,
                             models_to_load(options, placement, *bench->opened_));
    FORERUN_ASSIGN_OR_RETURN(bench->models_, load_models(to_load, placement));
    return bench;
  }

  bool drafts_by_head() const { return facts_of(*opened_).draft_is_head; }

  Result<Row> measure(const Cell& cell, std::string name, const SpeculationOptions& strategy,
                      double acceptance) {
    const int32_t vocab = opened_->target.live_vocab();
    ModelFacts facts = facts_of(*opened_);
    facts.draft_vocab = vocab;  // of the answers
    FORERUN_ASSIGN_OR_RETURN(const auto plan, resolve_speculation(strategy, facts));
    const bool by_model = strategy.strategy == "serial_tree";
    const std::array<std::unique_ptr<AcceptanceSource>, kNumRoles> answers =
        answers_of(acceptance, vocab);
    std::vector<StepRecord> steps;
    const auto executor =
        make_executor(*models_, {.answers = {answers[0].get(), answers[1].get()},
                                 .on_step = [&](const StepRecord& step) { steps.push_back(step); },
                                 .budget = {.rows = cell.requests * options_.max_context_tokens}});
    std::vector<OfflineRequest> requests(static_cast<size_t>(cell.requests));
    for (size_t index = 0; index < requests.size(); ++index) {
      // Each request has a text of its own, so none shares another's KV.
      const size_t offset = drafts_by_head() ? 13 * index : 0;
      requests[index].prompt.assign(static_cast<size_t>(cell.context) + offset, 1);
      requests[index].prompt[0] = static_cast<TokenId>(index + 2);
      requests[index].new_tokens = arguments_.tokens;
      requests[index].sampling.temperature = 0.0f;
    }
    struct Emitted {
      double seconds;
      size_t tokens;
    };
    std::vector<Emitted> emitted;
    const auto clock = [] { return 1e-9 * static_cast<double>(steady_ns()); };
    FORERUN_ASSIGN_OR_RETURN(
        const std::vector<OfflineResult> results,
        run_offline(*executor, requests,
                    {.max_active = cell.requests,
                     .clock = clock,
                     .make_strategy = [&](size_t) { return plan->make_strategy({}); },
                     .on_tokens =
                         [&](size_t, size_t tokens) {
                           emitted.push_back({clock(), tokens});
                         }}));
    double begin = 0.0;
    double end = results[0].last_token_seconds;
    int64_t tokens = 0;
    int64_t rounds = 0;
    for (const OfflineResult& request : results) {
      begin = std::max(begin, request.first_token_seconds);
      end = std::min(end, request.last_token_seconds);
      tokens += static_cast<int64_t>(request.tokens.size()) - 1;
      rounds += request.stats.target_steps;
    }
    if (end <= begin) {
      return Status(StatusCode::kInvalidArgument,
                    name +
                        ": a request had all of its tokens before all decoded; needs more "
                        "--tokens than " +
                        std::to_string(arguments_.tokens));
    }
    size_t within = 0;
    for (const Emitted& each : emitted) {
      if (each.seconds > begin && each.seconds <= end) within += each.tokens;
    }
    Row row{.cell = cell,
            .name = std::move(name),
            .budget = strategy.view_budget.value_or(0),
            .acceptance = by_model ? arguments_.draft_acceptance : acceptance};
    if (strategy.strategy != "autoregressive") row.depth = plan->draft_depth;
    const bool is_hierarchy = strategy.strategy == "sparse_self" && !strategy.source.empty();
    const bool is_tree = strategy.shape == "best";
    if (is_hierarchy || is_tree) row.width = plan->draft_width;
    if (is_tree) row.rows = plan->verify_tokens;
    row.tokens_a_round = static_cast<double>(tokens) / static_cast<double>(rounds);
    row.tokens_per_s = static_cast<double>(within) / (end - begin);
    std::vector<double> drafts, verifications;
    for (const StepRecord& step : steps) {
      // Skips Steps that lack some of the sequences, or that read prompts.
      if (step.sequences < cell.requests && !is_hierarchy) continue;
      if (step.rows > 64 * step.sequences) continue;
      if (is_hierarchy || drafts_by_head()) {
        (step.role == Role::kDraft ? drafts : verifications).push_back(1e3 * step.seconds);
        continue;
      }
      const bool drafts_tokens =
          step.role == Role::kDraft || (row.depth > 0 && step.rows == step.sequences);
      if (!drafts_tokens && step.rows != step.sequences * (row.depth + 1)) continue;
      (drafts_tokens ? drafts : verifications).push_back(1e3 * step.seconds);
    }
    row.draft_ms = median(std::move(drafts));
    row.verify_ms = median(std::move(verifications));
    return row;
  }

 private:
  explicit Bench(const Arguments& arguments) : arguments_(arguments) {}

  // Returns the answers of the target, whose own guesses are accepted with `acceptance`, and of the
  // draft.
  std::array<std::unique_ptr<AcceptanceSource>, kNumRoles> answers_of(double acceptance,
                                                                      int32_t vocab) const {
    AcceptanceModel draft = acceptance_of(arguments_.draft_acceptance, vocab);
    if (!drafts_by_head()) {
      return {std::make_unique<ModelledAcceptance>(acceptance_of(acceptance, vocab)),
              std::make_unique<ModelledAcceptance>(draft)};
    }
    draft.rank_hit.insert(draft.rank_hit.end(), arguments_.rank_hits.begin(),
                          arguments_.rank_hits.end());
    draft.spread = AcceptanceModel().spread;
    return {std::make_unique<PositionalAcceptance>(draft),
            std::make_unique<PositionalAcceptance>(draft)};
  }

  const Arguments arguments_;
  EngineOptions options_;
  std::unique_ptr<OpenedModels> opened_;
  std::unique_ptr<LoadedModels> models_;
};

void print(const Row& row, const Row& plain) {
  const int32_t requests = row.cell.requests;
  const double token_ms = 1e3 * requests / row.tokens_per_s;
  std::printf("%-24s %3d %6d %5.2f %8.2f %8.2f %6.2f %8.2f %8.2f %9.1f %6.2f\n", row.name.c_str(),
              row.depth, row.budget, row.acceptance, row.draft_ms, row.verify_ms,
              row.tokens_a_round, 1e3 * requests / plain.tokens_per_s, token_ms, row.tokens_per_s,
              row.tokens_per_s / plain.tokens_per_s);
  std::fflush(stdout);
}

// A setting to be measured, and the name of its row. Views that cover a whole context are skipped,
// since they save nothing.
struct Setting {
  std::string name;
  SpeculationOptions strategy;
};

SpeculationOptions chain_of_draft(int32_t depth) {
  SpeculationOptions strategy{.strategy = "serial_tree"};
  strategy.shape = "chain";
  strategy.source = "model";
  strategy.draft_depth = depth;
  return strategy;
}

std::vector<Setting> head_settings(const Arguments& arguments) {
  std::vector<Setting> settings = {{"autoregressive", {.strategy = "autoregressive"}}};
  for (const int32_t depth : arguments.draft_depths) {
    settings.push_back({"head, chain", chain_of_draft(depth)});
  }
  for (const std::string& tree : arguments.trees) {
    SpeculationOptions strategy{.strategy = "serial_tree"};
    strategy.shape = "best";
    strategy.source = "model";
    int rows = 0, width = 0, depth = 0;
    if (std::sscanf(tree.c_str(), "%dx%dx%d", &rows, &width, &depth) != 3) continue;  // checked
    strategy.verify_tokens = rows;
    strategy.draft_width = width;
    strategy.draft_depth = depth;
    settings.push_back({"head, tree " + tree, strategy});
  }
  return settings;
}

std::vector<Setting> settings_of(const Arguments& arguments, const Cell& cell) {
  std::vector<Setting> settings = {{"autoregressive", {.strategy = "autoregressive"}}};
  std::vector<int32_t> budgets;
  std::copy_if(arguments.budgets.begin(), arguments.budgets.end(), std::back_inserter(budgets),
               [&](int32_t budget) { return budget < cell.context; });
  for (const int32_t budget : budgets) {
    for (const int32_t depth : arguments.depths) {
      SpeculationOptions strategy{.strategy = "sparse_self"};
      strategy.view_budget = budget;
      strategy.draft_depth = depth;
      settings.push_back({"sparse_self", strategy});
    }
  }
  if (arguments.draft.empty()) return settings;
  for (const int32_t depth : arguments.draft_depths) {
    SpeculationOptions strategy = chain_of_draft(depth);
    settings.push_back({"draft model", strategy});
    for (const int32_t budget : budgets) {
      strategy.view = "streaming_llm";
      strategy.view_budget = budget;
      settings.push_back({"draft model, its view", strategy});
    }
  }
  for (const int32_t budget : budgets) {
    for (const int32_t depth : arguments.hierarchy_depths) {
      for (const int32_t width : arguments.hierarchy_widths) {
        SpeculationOptions strategy{.strategy = "sparse_self", .source = "model"};
        strategy.view_budget = budget;
        strategy.draft_depth = depth;
        strategy.draft_width = width;
        settings.push_back({"hierarchy, " + std::to_string(width) + " rows", strategy});
      }
    }
  }
  return settings;
}

// Appends a row for plain decoding and for each requested strategy: the fastest of its repeats. All
// settings take turns, since the speed of a shared machine varies.
Status run_cell(const Arguments& arguments, Bench& bench, const Cell& cell,
                std::vector<Row>& rows) {
  const std::vector<Setting> settings =
      bench.drafts_by_head() ? head_settings(arguments) : settings_of(arguments, cell);
  std::vector<Row> fastest(settings.size());
  for (int32_t repeat = 0; repeat < arguments.repeats; ++repeat) {
    for (size_t index = 0; index < settings.size(); ++index) {
      const Setting& setting = settings[index];
      FORERUN_ASSIGN_OR_RETURN(Row row, bench.measure(cell, setting.name, setting.strategy,
                                                      index == 0 ? 0.0 : arguments.acceptance));
      if (row.tokens_per_s > fastest[index].tokens_per_s) fastest[index] = std::move(row);
    }
  }
  std::printf("%d sequences of %d tokens, %s\n", cell.requests, cell.context,
              arguments.devices.empty() ? "processors" : arguments.devices.c_str());
  std::printf("%-24s %3s %6s %5s %8s %8s %6s %8s %8s %9s %6s\n", "strategy", "γ", "K", "α",
              "T_D ms", "T_V ms", "Ω", "T_AR ms", "T_SD ms", "tokens/s", "x");
  for (Row& row : fastest) {
    row.speed_up = row.tokens_per_s / fastest.front().tokens_per_s;
    print(row, fastest.front());
  }
  rows.insert(rows.end(), fastest.begin(), fastest.end());
  return {};
}

Status run(const Arguments& arguments) {
  const std::vector<Cell> cells = cells_of(arguments);
  if (cells.empty()) {
    return {StatusCode::kInvalidArgument,
            "--most-tokens: every cell holds more than " + std::to_string(arguments.max_tokens)};
  }
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::load(arguments, cells));
  std::vector<Row> rows;
  for (const Cell& cell : cells) FORERUN_RETURN_IF_ERROR(run_cell(arguments, *bench, cell, rows));
  nlohmann::json recorded = nlohmann::json::array();
  for (const Row& row : rows) {
    recorded.push_back({{"strategy", row.name},
                        {"requests", row.cell.requests},
                        {"context", row.cell.context},
                        {"gamma", row.depth},
                        {"check_rows", row.width},
                        {"tree_rows", row.rows},
                        {"budget", row.budget},
                        {"acceptance", row.acceptance},
                        {"draft_ms", row.draft_ms},
                        {"verify_ms", row.verify_ms},
                        {"tokens_a_round", row.tokens_a_round},
                        {"tokens_per_s", row.tokens_per_s},
                        {"speed_up", row.speed_up}});
  }
  return bench::record_rows(recorded, arguments.json);
}

std::string tree_refusal(const std::string& text) {
  int rows = 0, width = 0, depth = 0;
  if (std::sscanf(text.c_str(), "%dx%dx%d", &rows, &width, &depth) == 3) return {};
  return "found '" + text + "'; accepted: ROWSxWIDTHxDEPTH such as 16x8x7";
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  forerun::Arguments arguments;
  CLI::App app("Strategies for batches of long contexts at a given acceptance");
  app.add_option("--model", arguments.model)->required();
  app.add_option("--draft", arguments.draft);
  app.add_option("--devices", arguments.devices,
                 "cuda:0, cuda:0,cuda:1, ... (default: processors)");
  app.add_option("--requests", arguments.requests)->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--context", arguments.contexts)->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--most-tokens", arguments.max_tokens, "of a cell: larger ones are left out");
  app.add_option("--tokens", arguments.tokens, "of each request")->check(CLI::PositiveNumber);
  app.add_option("--repeats", arguments.repeats,
                 "of all settings in turn; the fastest of each counts")
      ->check(CLI::PositiveNumber);
  app.add_option("--acceptance", arguments.acceptance, "of the sparse target")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--draft-acceptance", arguments.draft_acceptance)->check(CLI::Range(0.0, 1.0));
  app.add_option("--budgets", arguments.budgets, "K of the views")->delimiter(',');
  app.add_option("--depths", arguments.depths, "γ of sparse_self")->delimiter(',');
  app.add_option("--draft-depths", arguments.draft_depths, "γ of the draft model")->delimiter(',');
  app.add_option("--trees", arguments.trees,
                 "of a trained head: rows verified x leaves a draft Step x draft Steps")
      ->delimiter(',')
      ->check(CLI::Validator(forerun::tree_refusal, "ROWSxWIDTHxDEPTH"));
  app.add_option("--rank-hits", arguments.rank_hits, "chances of a head's second, third ... guess")
      ->delimiter(',');
  app.add_option("--draft-weights", arguments.draft_weights, "as forerun's");
  app.add_option("--hierarchy-depths", arguments.hierarchy_depths,
                 "γ of sparse_self that checks what the draft model guesses")
      ->delimiter(',');
  app.add_option("--hierarchy-widths", arguments.hierarchy_widths, "rows of its checks")
      ->delimiter(',');
  app.add_option("--draft-window", arguments.draft_window,
                 "tokens of each request that the draft model keeps; 0: all");
  app.add_option("--json", arguments.json, "record the rows there");
  CLI11_PARSE(app, argc, argv);
  const forerun::Status status = forerun::run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "replay_batches: %s\n", status.message().c_str());
  return 1;
}
