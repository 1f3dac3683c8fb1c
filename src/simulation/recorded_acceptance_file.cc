// The file of recorded acceptance:
//   {"forerun_acceptance": 1, "vocab": 1000, "texts": [{"prompt_tokens": 2, "tokens": [5, 9, 7],
//    "branch_parents": [-1], "branch_tokens": [3], "guess_counts": [2, 1], "guesses": [7, 3, 8],
//    "logprobs": [-0.1, -2.5, -0.7]}]}
// `branch_parents` (as RecordedBranch's) and `branch_tokens` have an entry a branch; both may be
// absent. `guess_counts` has one number an output token and then one a branch; `guesses` and
// `logprobs` are those of all of them, one after the other.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status_macros.h"
#include "json/field_reader.h"
#include "json/json_document.h"
#include "simulation/recorded_acceptance.h"

namespace forerun {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;
constexpr int64_t kMaxVocab = 1 << 24;

std::vector<int64_t> read_list(FieldReader& fields, const char* field, int64_t min, int64_t max) {
  auto values = fields.integers(field, min, max);
  if (!values) fields.refuse(field, "a list of integers");
  return values.value_or(std::vector<int64_t>{});
}

// One list of guesses an entry of guess_counts.
std::vector<std::vector<Candidate>> read_guesses(FieldReader& fields, int64_t vocab) {
  const std::vector<int64_t> counts = read_list(fields, "guess_counts", 0, vocab);
  const std::vector<int64_t> guesses = read_list(fields, "guesses", 0, vocab - 1);
  const auto logprobs = fields.numbers("logprobs", -1e30, 1e30).value_or(std::vector<float>{});
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  for (const auto& [field, size] :
       {std::pair{"guesses", guesses.size()}, std::pair{"logprobs", logprobs.size()}}) {
    if (static_cast<int64_t>(size) != total) {
      fields.refuse(field, "as many as guess_counts adds up to");
    }
  }
  std::vector<std::vector<Candidate>> result;
  if (!fields.ok()) return result;
  size_t next = 0;
  for (const int64_t count : counts) {
    auto& row = result.emplace_back();
    for (const size_t end = next + static_cast<size_t>(count); next < end; ++next) {
      row.push_back({static_cast<TokenId>(guesses[next]), logprobs[next]});
    }
  }
  return result;
}

RecordedText read_text(FieldReader& fields, int64_t vocab) {
  fields.accept_only({"prompt_tokens", "tokens", "branch_parents", "branch_tokens", "guess_counts",
                      "guesses", "logprobs"});
  RecordedText text;
  text.prompt_tokens = static_cast<int32_t>(fields.required_integer("prompt_tokens", 1, kMaxVocab));
  for (const int64_t token : read_list(fields, "tokens", 0, vocab - 1)) {
    text.tokens.push_back(static_cast<TokenId>(token));
  }
  std::vector<int64_t> parents, tokens;
  if (fields.has("branch_parents") || fields.has("branch_tokens")) {
    parents = read_list(fields, "branch_parents", INT32_MIN, INT32_MAX);
    tokens = read_list(fields, "branch_tokens", 0, vocab - 1);
  }
  if (parents.size() != tokens.size()) {
    fields.refuse("branch_tokens", "as many as branch_parents");
  }
  std::vector<std::vector<Candidate>> guesses = read_guesses(fields, vocab);
  if (guesses.size() < parents.size()) {
    fields.refuse("guess_counts", "one for every output token and branch");
  }
  if (!fields.ok()) return text;
  const size_t outputs = guesses.size() - parents.size();
  for (size_t index = 0; index < parents.size(); ++index) {
    text.branches.push_back({static_cast<int32_t>(parents[index]),
                             static_cast<TokenId>(tokens[index]),
                             std::move(guesses[outputs + index])});
  }
  guesses.resize(outputs);
  text.guesses = std::move(guesses);
  return text;
}

}  // namespace

Status RecordedAcceptance::save(const std::filesystem::path& file) const {
  nlohmann::ordered_json json = {
      {"forerun_acceptance", 1}, {"vocab", vocab_}, {"texts", nlohmann::ordered_json::array()}};
  for (const RecordedText& text : texts_) {
    nlohmann::ordered_json counts = nlohmann::ordered_json::array();
    nlohmann::ordered_json guesses = counts, logprobs = counts, parents = counts, tokens = counts;
    const auto append = [&](const std::vector<Candidate>& row) {
      counts.push_back(row.size());
      for (const Candidate& guess : row) {
        guesses.push_back(guess.token);
        // A hundred-thousandth is finer than any use; JSON has no infinity.
        logprobs.push_back(std::round(1e5 * std::max(-1e9, double{guess.logprob})) / 1e5);
      }
    };
    for (const auto& row : text.guesses) append(row);
    for (const RecordedBranch& branch : text.branches) {
      append(branch.guesses);
      parents.push_back(branch.parent);
      tokens.push_back(branch.token);
    }
    json["texts"].push_back({{"prompt_tokens", text.prompt_tokens},
                             {"tokens", text.tokens},
                             {"branch_parents", std::move(parents)},
                             {"branch_tokens", std::move(tokens)},
                             {"guess_counts", std::move(counts)},
                             {"guesses", std::move(guesses)},
                             {"logprobs", std::move(logprobs)}});
  }
  std::ofstream out(file);
  out << json.dump() << '\n';
  if (!out) {
    return Status(StatusCode::kInvalidArgument, file.string() + ": cannot be written");
  }
  return {};
}

Result<RecordedAcceptance> RecordedAcceptance::load(const std::filesystem::path& file) {
  FORERUN_ASSIGN_OR_RETURN(const JsonDocument document,
                           JsonDocument::read(file, kMaxFileBytes, /*refuse_repeated_keys=*/true));
  FieldReader top(document.root());
  top.accept_only({"forerun_acceptance", "vocab", "texts"});
  top.required_integer("forerun_acceptance", 1, 1);
  const int64_t vocab = top.required_integer("vocab", 1, kMaxVocab);
  auto texts = top.objects("texts");
  if (!texts) top.refuse("texts", "a list of objects");
  FORERUN_RETURN_IF_ERROR(top.status());
  RecordedAcceptance recorded(static_cast<int32_t>(vocab));
  for (FieldReader& fields : *texts) {
    RecordedText text = read_text(fields, vocab);
    FORERUN_RETURN_IF_ERROR(top.status());
    FORERUN_RETURN_IF_ERROR(recorded.add(std::move(text)).with_context(file.string()));
  }
  return recorded;
}

}  // namespace forerun
