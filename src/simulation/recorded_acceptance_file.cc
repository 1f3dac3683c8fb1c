// The file of recorded acceptance:
//   {"forerun_acceptance": 2, "vocab": 1000, "texts": [{"prompt_tokens": 2, "tokens": "FJH",
//    "branch_parents": "B", "branch_tokens": "D", "guess_counts": "CB", "guesses": "HDI",
//    "logprobs": "kDgrC8V"}]}
// A string is a list of packed integers (base/packed_integers.h).
//   tokens          tokens of the prompt, then of the output
//   branch_parents  the branch's own index minus RecordedBranch::parent
//   branch_tokens   one per branch; this and branch_parents may be absent if there are no branches
//   guess_counts    one per output token, then one per branch
//   guesses         tokens of all guesses, in that order
//   logprobs        logprobs of the guesses, negated, in thousandths; after the first one of an
//                   output token or branch, the difference from the previous one
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/packed_integers.h"
#include "base/status_macros.h"
#include "json/field_reader.h"
#include "json/json_document.h"
#include "simulation/recorded_acceptance.h"

namespace forerun {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;
constexpr int64_t kMaxVocab = 1 << 24;

constexpr int64_t kMaxThousandths = int64_t{1} << 40;
std::vector<int64_t> read_list(FieldReader& fields, const char* field, int64_t max) {
  const auto values = unpack_integers(fields.string(field).value_or(std::string()), max);
  if (!values || !fields.has(field)) {
    fields.refuse(field, "a string of packed integers from 0 to " + std::to_string(max));
  }
  return values.value_or(std::vector<int64_t>{});
}

// Reads one list of guesses for each entry of guess_counts.
std::vector<std::vector<Candidate>> read_guesses(FieldReader& fields, int64_t vocab) {
  const std::vector<int64_t> counts = read_list(fields, "guess_counts", vocab);
  const std::vector<int64_t> guesses = read_list(fields, "guesses", vocab - 1);
  const std::vector<int64_t> falls = read_list(fields, "logprobs", kMaxThousandths);
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  for (const auto& [field, size] :
       {std::pair{"guesses", guesses.size()}, std::pair{"logprobs", falls.size()}}) {
    if (static_cast<int64_t>(size) != total) {
      fields.refuse(field, "as many as guess_counts adds up to", StatusCode::kInvalidArgument,
                    std::to_string(size) + " of " + std::to_string(total));
    }
  }
  std::vector<std::vector<Candidate>> result;
  if (!fields.ok()) return result;
  size_t next = 0;
  for (const int64_t count : counts) {
    auto& row = result.emplace_back();
    double fallen = 0.0;
    for (const size_t end = next + static_cast<size_t>(count); next < end; ++next) {
      fallen += static_cast<double>(falls[next]);
      row.push_back({static_cast<TokenId>(guesses[next]), static_cast<float>(-fallen / 1e3)});
    }
  }
  return result;
}

RecordedText read_text(FieldReader& fields, int64_t vocab) {
  fields.accept_only({"prompt_tokens", "tokens", "branch_parents", "branch_tokens", "guess_counts",
                      "guesses", "logprobs"});
  RecordedText text;
  text.prompt_tokens = static_cast<int32_t>(fields.required_integer("prompt_tokens", 1, kMaxVocab));
  for (const int64_t token : read_list(fields, "tokens", vocab - 1)) {
    text.tokens.push_back(static_cast<TokenId>(token));
  }
  std::vector<int64_t> parents, tokens;
  if (fields.has("branch_parents") || fields.has("branch_tokens")) {
    parents = read_list(fields, "branch_parents", INT32_MAX);
    tokens = read_list(fields, "branch_tokens", vocab - 1);
  }
  if (parents.size() != tokens.size()) {
    fields.refuse("branch_tokens", "as many as branch_parents", StatusCode::kInvalidArgument,
                  std::to_string(tokens.size()) + " of " + std::to_string(parents.size()));
  }
  std::vector<std::vector<Candidate>> guesses = read_guesses(fields, vocab);
  if (guesses.size() < parents.size()) {
    fields.refuse("guess_counts", "one for every output token and branch");
  }
  if (!fields.ok()) return text;
  const size_t outputs = guesses.size() - parents.size();
  for (size_t index = 0; index < parents.size(); ++index) {
    text.branches.push_back({static_cast<int32_t>(static_cast<int64_t>(index) - parents[index]),
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
      {"forerun_acceptance", 2}, {"vocab", vocab_}, {"texts", nlohmann::ordered_json::array()}};
  for (const RecordedText& text : texts_) {
    std::string output, parents, branch_tokens, counts, guesses, logprobs;
    for (const TokenId token : text.tokens) append_packed(output, token);
    const auto append = [&](const std::vector<Candidate>& row) {
      append_packed(counts, static_cast<int64_t>(row.size()));
      int64_t before = 0;
      for (const Candidate& guess : row) {
        append_packed(guesses, guess.token);
        // A thousandth is finer than any use needs.
        const int64_t thousandths =
            std::llround(1e3 * std::clamp(-double{guess.logprob}, 0.0, 1e9));
        append_packed(logprobs, std::max<int64_t>(0, thousandths - before));
        before = std::max(before, thousandths);
      }
    };
    for (const auto& row : text.guesses) append(row);
    for (size_t index = 0; index < text.branches.size(); ++index) {
      const RecordedBranch& branch = text.branches[index];
      append(branch.guesses);
      append_packed(parents, static_cast<int64_t>(index) - branch.parent);
      append_packed(branch_tokens, branch.token);
    }
    json["texts"].push_back({{"prompt_tokens", text.prompt_tokens},
                             {"tokens", output},
                             {"branch_parents", parents},
                             {"branch_tokens", branch_tokens},
                             {"guess_counts", counts},
                             {"guesses", guesses},
                             {"logprobs", logprobs}});
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
  top.required_integer("forerun_acceptance", 2, 2);
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
