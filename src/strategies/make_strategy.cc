#include "strategies/make_strategy.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "drafts/make_draft_source.h"
#include "strategies/adaptive_growth.h"
#include "strategies/autoregressive.h"
#include "strategies/fixed_growth.h"
#include "strategies/parallel_tree.h"
#include "strategies/serial_tree.h"

namespace forerun {
namespace {

constexpr int32_t kMaxVerifyTokens = CostTable::kMaxRows;
constexpr int32_t kMaxDepth = 64;
constexpr int32_t kMaxChildren = 64;

Status invalid(const std::string& message) { return Status(StatusCode::kInvalidArgument, message); }

Status check_range(const char* name, int32_t value, int32_t low, int32_t high) {
  if (value >= low && value <= high) return Status();
  return invalid(std::string(name) + " is " + std::to_string(value) +
                 "; accepted: " + std::to_string(low) + " to " + std::to_string(high));
}

// "1,1,3" or "<1,1,3>" as children a level.
Result<std::vector<int32_t>> parse_static_shape(const std::string& shape) {
  std::string list = shape;
  if (list.size() >= 2 && list.front() == '<' && list.back() == '>') {
    list = list.substr(1, list.size() - 2);
  }
  std::vector<int32_t> children;
  int64_t level_nodes = 1;
  int64_t nodes = 1;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    int32_t count = 0;
    const auto parsed = std::from_chars(list.data() + begin, list.data() + end, count);
    if (parsed.ec != std::errc() || parsed.ptr != list.data() + end || count < 1 ||
        count > kMaxChildren) {
      return invalid("shape '" + shape +
                     "'; accepted: adaptive, best, chain, or children per level (each 1 to " +
                     std::to_string(kMaxChildren) + ") such as 1,1,3,1,1");
    }
    children.push_back(count);
    level_nodes *= count;
    nodes += level_nodes;
    if (nodes > kMaxVerifyTokens) {
      return invalid("shape '" + shape + "' has more than " + std::to_string(kMaxVerifyTokens) +
                     " nodes; accepted: up to " + std::to_string(kMaxVerifyTokens) +
                     ", the root included");
    }
    begin = end + 1;
  }
  return children;
}

bool is_static(const std::string& shape) { return shape != "adaptive" && shape != "best"; }

std::string source_of(const StrategyOptions& options) {
  if (!options.source.empty()) return options.source;
  if (!options.has_draft_model) return "suffix";
  // Other shapes have a size that a source's guesses would fill in place of the model's.
  // parallel_tree asks a source only at nodes that the draft runs, and it does so while the target
  // works: a source's guesses save no draft Step there.
  return options.shape == "adaptive" && options.name == "serial_tree" ? "model+suffix" : "model";
}

Result<std::vector<int32_t>> static_children(const StrategyOptions& options) {
  if (options.shape == "chain") {
    return std::vector<int32_t>(static_cast<size_t>(options.draft_depth), 1);
  }
  return parse_static_shape(options.shape);
}

// What every strategy that speculates has in common.
Status check_sizes_and_source(const StrategyOptions& options) {
  FORERUN_RETURN_IF_ERROR(check_range("verify_tokens", options.verify_tokens, 1, kMaxVerifyTokens));
  FORERUN_RETURN_IF_ERROR(check_range("draft_width", options.draft_width, 1, kMaxVerifyTokens));
  FORERUN_RETURN_IF_ERROR(check_range("draft_depth", options.draft_depth, 1, kMaxDepth));
  FORERUN_RETURN_IF_ERROR(check_range("extra_draft_steps", options.extra_draft_steps, 0, 1));
  FORERUN_RETURN_IF_ERROR(
      check_range("children_per_leaf", options.children_per_leaf, 0, kMaxChildren));
  auto sources = make_draft_source(source_of(options));
  if (!sources.ok()) return sources.status();
  if (sources->model && !options.has_draft_model) {
    return invalid("draft source '" + options.source +
                   "' needs a draft model, and none is loaded; accepted without one: ngram, "
                   "suffix, ngram+suffix");
  }
  if (options.accept != "match" && options.accept != "rejection") {
    return invalid("accept rule '" + options.accept + "'; accepted: match, rejection");
  }
  return Status();
}

Status check_serial_tree(const StrategyOptions& options) {
  FORERUN_RETURN_IF_ERROR(check_sizes_and_source(options));
  if (is_static(options.shape)) FORERUN_RETURN_IF_ERROR(static_children(options).status());
  if (options.accept == "match") return Status();
  if (!is_static(options.shape)) {
    return invalid("accept rule 'rejection' is not exact for shape '" + options.shape +
                   "', which picks guesses by weight; accepted with it: chain, or children per "
                   "level such as 1,1,3,1,1");
  }
  if (source_of(options) != "model") {
    return invalid(
        "accept rule 'rejection' needs guesses drawn from a draft model, but the draft "
        "source is '" +
        source_of(options) + "'; accepted with it: model");
  }
  return Status();
}

Status check_parallel_tree(const StrategyOptions& options) {
  FORERUN_RETURN_IF_ERROR(check_sizes_and_source(options));
  if (is_static(options.shape)) {
    return invalid("shape '" + options.shape +
                   "' with strategy parallel_tree, whose tree grows on while it is verified; "
                   "accepted with it: adaptive, best");
  }
  if (options.accept != "match") {
    return invalid(
        "accept rule 'rejection' is not exact for strategy parallel_tree, which picks guesses by "
        "weight; accepted with it: match");
  }
  FORERUN_ASSIGN_OR_RETURN(const DraftSources sources, make_draft_source(source_of(options)));
  if (!sources.model) {
    return invalid("strategy parallel_tree needs a draft model" +
                   (options.has_draft_model ? ", but the draft source is '" + options.source +
                                                  "'; accepted with it: model, model+ngram, "
                                                  "model+suffix"
                                            : ", and none is loaded; accepted without one: "
                                              "autoregressive, serial_tree"));
  }
  return Status();
}

std::unique_ptr<TreeGrowth> make_growth(const StrategyOptions& options, bool model,
                                        std::shared_ptr<SharedAcceptance> shared) {
  const bool parallel = options.name == "parallel_tree";
  if (options.shape == "adaptive") {
    return std::make_unique<AdaptiveGrowth>(
        AdaptiveGrowth::Params{.children_per_leaf = options.children_per_leaf,
                               .has_draft_model = model,
                               .runs_beside = parallel},
        std::move(shared));
  }
  return std::make_unique<BestGrowth>(
      BestGrowth::Params{.verify_tokens = options.verify_tokens,
                         .draft_width = options.draft_width,
                         .draft_depth = parallel ? kMaxVerifyTokens : options.draft_depth,
                         .children_per_leaf = options.children_per_leaf,
                         .has_draft_model = model,
                         .tops_up = parallel});
}

}  // namespace

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = {"autoregressive", "serial_tree", "parallel_tree"};
  return names;
}

Status check_strategy_options(const StrategyOptions& options) {
  if (options.name == "autoregressive") return Status();
  if (options.name == "serial_tree") return check_serial_tree(options);
  if (options.name == "parallel_tree") return check_parallel_tree(options);
  std::string accepted;
  for (const std::string& name : strategy_names()) {
    accepted += (accepted.empty() ? "" : ", ") + name;
  }
  return invalid("unknown strategy '" + options.name + "'; accepted: " + accepted);
}

StrategyOptions parallel_or_serial(StrategyOptions options) {
  if (options.name == "parallel_tree" && !check_strategy_options(options).ok()) {
    options.name = "serial_tree";
  }
  return options;
}

Result<std::unique_ptr<Strategy>> make_strategy(const StrategyOptions& options,
                                                std::shared_ptr<SharedAcceptance> shared,
                                                const CostTable& costs) {
  FORERUN_RETURN_IF_ERROR(check_strategy_options(options));
  if (options.name == "autoregressive") {
    return std::unique_ptr<Strategy>(std::make_unique<Autoregressive>());
  }
  FORERUN_ASSIGN_OR_RETURN(DraftSources sources, make_draft_source(source_of(options)));
  std::unique_ptr<TreeGrowth> growth;
  if (is_static(options.shape)) {
    FORERUN_ASSIGN_OR_RETURN(std::vector<int32_t> children, static_children(options));
    growth = std::make_unique<StaticGrowth>(std::move(children));
  } else {
    growth = make_growth(options, sources.model, std::move(shared));
  }
  if (options.name == "parallel_tree") {
    const ParallelTreeConfig config{.verify_tokens = options.verify_tokens,
                                    .draft_width = options.draft_width,
                                    .draft_depth = options.draft_depth,
                                    .sizes_from_costs = options.shape == "adaptive",
                                    .extra_draft_steps = options.extra_draft_steps,
                                    .children_per_leaf = options.children_per_leaf,
                                    .target_vocab = options.target_vocab,
                                    .draft_vocab = options.draft_vocab,
                                    .record_rounds = options.record_rounds};
    auto strategy =
        std::make_unique<ParallelTree>(config, std::move(sources.source), std::move(growth));
    strategy->on_costs(costs);
    return std::unique_ptr<Strategy>(std::move(strategy));
  }
  growth->on_costs(costs);
  const SerialTreeConfig config{
      .has_draft_model = sources.model,
      .accept = options.accept == "rejection" ? AcceptRule::kRejection : AcceptRule::kMatch,
      .target_vocab = options.target_vocab,
      .draft_vocab = options.draft_vocab,
      .record_rounds = options.record_rounds};
  return std::unique_ptr<Strategy>(
      std::make_unique<SerialTree>(config, std::move(sources.source), std::move(growth)));
}

}  // namespace forerun
