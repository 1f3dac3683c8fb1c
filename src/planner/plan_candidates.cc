#include "planner/plan_candidates.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

#include "base/status_macros.h"
#include "planner/assumed_acceptance.h"
#include "views/view_table.h"

namespace forerun {
namespace {

constexpr const char* kDraftView = "streaming_llm";  // the view of a draft model
// Guesses per check of a hierarchy: the default of SpeculationOptions::draft_width minus one.
constexpr int32_t kCheckedGuesses = 3;

struct GivenAcceptance {
  std::string text;
  bool of_draft = false;
  std::string view;    // empty: the draft model's rate, with any view
  int64_t budget = 0;  // 0: any
  double value = 0.0;
  bool used = false;
};

Status refuse(const char* flag, const std::string& found, const std::string& accepted) {
  return {StatusCode::kInvalidArgument,
          std::string(flag) + ": found " + found + "; accepted: " + accepted};
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<GivenAcceptance> parse_acceptance(const std::string& text) {
  GivenAcceptance given{.text = text, .view = {}};
  const auto bad = [&](const std::string& accepted) {
    return refuse("--acceptance", "\"" + text + "\"", accepted);
  };
  constexpr const char* kForms =
      "VIEW=A, VIEW:K=A, draft=A and draft/VIEW:K=A with A from 0 to 1, for example "
      "snapkv:2049=0.89";
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return bad(kForms);
  const auto value = number_of<double>(std::string_view(text).substr(equals + 1));
  if (!value || !(*value >= 0.0 && *value <= 1.0)) return bad(kForms);
  given.value = *value;
  std::string name = text.substr(0, equals);
  if (const size_t colon = name.find(':'); colon != std::string::npos) {
    const auto budget = number_of<int64_t>(std::string_view(name).substr(colon + 1));
    if (!budget || *budget < 1) return bad(kForms);
    given.budget = *budget;
    name.resize(colon);
  }
  if (name == "draft" || name.starts_with("draft/")) {
    given.of_draft = true;
    name = name == "draft" ? "" : name.substr(6);
    if (name.empty() && given.budget > 0) return bad(kForms);
  }
  if ((!given.of_draft || !name.empty()) && find_view(name) == nullptr) {
    return bad("the views " + view_names() + ", and draft");
  }
  given.view = name;
  return given;
}

// Returns the most specific given acceptance rate that applies to the candidate; marks all that
// apply as used.
std::optional<double> given_for(std::vector<GivenAcceptance>& all, const PlanCandidate& plan) {
  const SpeculationCandidate& candidate = plan.candidate;
  const bool of_draft = candidate.draft.model == Role::kDraft;
  std::optional<double> best;
  int best_rank = -1;
  for (GivenAcceptance& given : all) {
    if (given.of_draft != of_draft) continue;
    if (!given.view.empty() && given.view != candidate.view) continue;
    if (given.budget > 0 && given.budget != candidate.draft.budget_tokens) continue;
    given.used = true;
    const int rank = (given.view.empty() ? 0 : 1) + (given.budget > 0 ? 2 : 0);
    if (rank < best_rank) continue;
    best_rank = rank;
    best = given.value;
  }
  return best;
}

Status check_asked_budget(const KvViewEntry& view, int64_t budget, int64_t longest_context) {
  const auto tokens = static_cast<int32_t>(std::min<int64_t>(budget, INT32_MAX));
  FORERUN_RETURN_IF_ERROR(view.check(tokens).with_context("--budgets"));
  if (longest_context > 0 && budget >= longest_context) {
    return refuse("--budgets",
                  std::to_string(budget) + " for " + view.name +
                      ", but the longest context has only " + std::to_string(longest_context) +
                      " tokens",
                  "budgets below that");
  }
  return Status();
}

// Returns the views to plan with: those named by the user, else the views that are planned by
// default, and those with a given acceptance rate.
Result<std::vector<const KvViewEntry*>> chosen_views(const CandidateOptions& options,
                                                     const std::vector<GivenAcceptance>& given) {
  std::vector<const KvViewEntry*> views;
  for (const std::string& name : options.views) {
    const KvViewEntry* const view = find_view(name);
    if (view == nullptr) return refuse("--views", "\"" + name + "\"", view_names());
    if (std::find(views.begin(), views.end(), view) == views.end()) views.push_back(view);
  }
  if (!options.views.empty()) return views;
  for (const KvViewEntry& view : view_table()) {
    const bool spoken_of = std::any_of(given.begin(), given.end(), [&](const auto& each) {
      return !each.of_draft && each.view == view.name;
    });
    if (view.facts.by_default || spoken_of) views.push_back(&view);
  }
  return views;
}

// Returns the requested budgets, else those with a given acceptance rate, else the view's own
// budget if a context is longer.
std::vector<int64_t> budgets_of(const CandidateOptions& options, const KvViewEntry& view,
                                bool of_draft, const std::vector<GivenAcceptance>& given) {
  if (!options.budgets.empty()) return options.budgets;
  std::vector<int64_t> budgets;
  for (const GivenAcceptance& each : given) {
    if (each.of_draft == of_draft && each.view == view.name && each.budget > 0) {
      budgets.push_back(each.budget);
    }
  }
  if (budgets.empty()) budgets = {view.facts.budget};
  return budgets;
}

Status add_self(const CandidateOptions& options, const KvViewEntry& view, int64_t budget,
                std::vector<GivenAcceptance>& given, std::vector<PlanCandidate>& plans) {
  const KvViewFacts& facts = view.facts;
  if (!options.budgets.empty() || budget != facts.budget) {
    FORERUN_RETURN_IF_ERROR(check_asked_budget(view, budget, options.longest_context));
  }
  PlanCandidate plan;
  plan.name = std::string("self, ") + view.name + " " + std::to_string(budget);
  plan.candidate = {
      .draft = {.model = Role::kTarget,
                .budget_tokens = budget,
                .grown_tokens = view.tokens_between_reruns(static_cast<int32_t>(budget)) / 2,
                .selection_share = facts.selection_share},
      .view = view.name};
  if (const auto value = given_for(given, plan)) {
    plan.candidate.acceptance = *value;
    plan.source = "given";
  } else {
    plan.candidate.acceptance = assumed_acceptance(facts, budget);
    plan.source = budget == facts.budget
                      ? facts.acceptance_source
                      : "assumed, from a budget of " + std::to_string(facts.budget) + " (" +
                            facts.acceptance_source + ")";
  }
  plans.push_back(std::move(plan));
  return Status();
}

void add_draft(int64_t budget, std::vector<GivenAcceptance>& given,
               std::vector<PlanCandidate>& plans) {
  PlanCandidate plan;
  plan.name = "draft";
  plan.candidate.draft = {.model = Role::kDraft, .budget_tokens = budget};
  if (budget > 0) {
    plan.name += std::string(", ") + kDraftView + " " + std::to_string(budget);
    plan.candidate.view = kDraftView;
  }
  const auto value = given_for(given, plan);
  plan.candidate.acceptance = value.value_or(kPublishedDraftAcceptance);
  plan.source = value ? "given" : std::string(kMagicDecTable6) + ", a 1B draft of an 8B model";
  plans.push_back(std::move(plan));
}

// Adds, for every candidate in which the target drafts for itself, a hierarchy that checks the
// draft model's tokens. The view is assumed to accept these tokens as often as the target does:
// this holds where the view is right, and where it errs, a small model often errs in the same way.
void add_hierarchies(std::vector<GivenAcceptance>& given, std::vector<PlanCandidate>& plans) {
  const size_t alone = plans.size();
  for (size_t idx = 0; idx < alone; ++idx) {
    if (plans[idx].candidate.draft.model != Role::kTarget) continue;
    const int64_t budget = plans[idx].candidate.draft.budget_tokens;
    std::vector<PlanCandidate> guesses;
    add_draft(budget, given, guesses);
    PlanCandidate plan = plans[idx];
    plan.name += ", checks draft";
    plan.candidate.draft.checks = {.guesses = kCheckedGuesses,
                                   .by_model = true,
                                   .budget_tokens = budget,
                                   .acceptance = guesses.front().candidate.acceptance};
    std::array<char, 16> acceptance{};
    std::snprintf(acceptance.data(), acceptance.size(), "%.2f",
                  guesses.front().candidate.acceptance);
    plan.source += "); of what the draft guesses it shares " + std::string(acceptance.data()) +
                   " (" + guesses.front().source;
    plans.push_back(std::move(plan));
  }
}

}  // namespace

Result<std::vector<PlanCandidate>> make_candidates(const CandidateOptions& options) {
  std::vector<GivenAcceptance> given;
  for (const std::string& text : options.acceptance) {
    FORERUN_ASSIGN_OR_RETURN(GivenAcceptance each, parse_acceptance(text));
    given.push_back(std::move(each));
  }
  FORERUN_ASSIGN_OR_RETURN(const std::vector<const KvViewEntry*> views,
                           chosen_views(options, given));
  std::vector<PlanCandidate> plans;
  for (const KvViewEntry* const view : views) {
    const std::vector<int64_t> budgets = budgets_of(options, *view, /*of_draft=*/false, given);
    for (const int64_t budget : budgets) {
      FORERUN_RETURN_IF_ERROR(add_self(options, *view, budget, given, plans));
    }
  }
  if (options.has_draft_model) {
    add_draft(0, given, plans);
    const KvViewEntry& view = *find_view(kDraftView);
    const bool planned = std::find(views.begin(), views.end(), &view) != views.end();
    for (const int64_t budget : budgets_of(options, view, /*of_draft=*/true, given)) {
      if (planned) add_draft(budget, given, plans);
    }
    add_hierarchies(given, plans);
  }
  for (const GivenAcceptance& each : given) {
    if (each.used) continue;
    return refuse(
        "--acceptance", "\"" + each.text + "\", which fits no candidate",
        options.has_draft_model
            ? "a view and a budget that --views and --budgets name"
            : "a view and a budget that --views and --budgets name; for a draft give --draft");
  }
  return plans;
}

std::vector<SpeculationCandidate> bare(const std::vector<PlanCandidate>& candidates) {
  std::vector<SpeculationCandidate> all;
  for (const PlanCandidate& each : candidates) all.push_back(each.candidate);
  return all;
}

}  // namespace forerun
