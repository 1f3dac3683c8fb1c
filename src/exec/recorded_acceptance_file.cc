// The file of recorded acceptance:
//   {"forerun_acceptance": 1, "vocab": 1000, "texts": [{"prompt_tokens": 2, "tokens": [5, 9, 7],
//    "guess_counts": [2], "guesses": [7, 3], "logprobs": [-0.1, -2.5]}]}
// `guess_counts` has one number an output token; `guesses` and `logprobs` are those of all of them,
// one after the other.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/json_fields.h"
#include "exec/recorded_acceptance.h"

namespace forerun {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;
constexpr int64_t kMaxVocab = 1 << 24;

RecordedText read_text(FieldReader& fields, int64_t vocab) {
  fields.accept_only({"prompt_tokens", "tokens", "guess_counts", "guesses", "logprobs"});
  RecordedText text;
  text.prompt_tokens = static_cast<int32_t>(fields.required_integer("prompt_tokens", 1, kMaxVocab));
  const auto list = [&](const char* field, int64_t max) {
    auto values = fields.integers(field, 0, max);
    if (!values) fields.refuse(StatusCode::kInvalidArgument, field, "a list of integers");
    return values.value_or(std::vector<int64_t>{});
  };
  for (const int64_t token : list("tokens", vocab - 1)) {
    text.tokens.push_back(static_cast<TokenId>(token));
  }
  const std::vector<int64_t> counts = list("guess_counts", vocab);
  const std::vector<int64_t> guesses = list("guesses", vocab - 1);
  const auto logprobs = fields.numbers("logprobs", -1e30, 1e30).value_or(std::vector<float>{});
  size_t next = 0;
  for (const int64_t count : counts) {
    auto& row = text.guesses.emplace_back();
    for (int64_t rank = 0; rank < count && next < guesses.size() && next < logprobs.size();
         ++rank, ++next) {
      row.push_back({static_cast<TokenId>(guesses[next]), logprobs[next]});
    }
    if (row.size() != static_cast<size_t>(count)) {
      fields.refuse(StatusCode::kInvalidArgument, "guesses", "as many as guess_counts adds up to");
    }
  }
  if (next != guesses.size() || next != logprobs.size()) {
    fields.refuse(StatusCode::kInvalidArgument, "logprobs", "as many as guess_counts adds up to");
  }
  return text;
}

}  // namespace

Status RecordedAcceptance::save(const std::filesystem::path& file) const {
  nlohmann::ordered_json json = {
      {"forerun_acceptance", 1}, {"vocab", vocab_}, {"texts", nlohmann::ordered_json::array()}};
  for (const RecordedText& text : texts_) {
    nlohmann::ordered_json counts = nlohmann::ordered_json::array();
    nlohmann::ordered_json guesses = counts;
    nlohmann::ordered_json logprobs = counts;
    for (const auto& row : text.guesses) {
      counts.push_back(row.size());
      for (const Candidate& guess : row) {
        guesses.push_back(guess.token);
        // A hundred-thousandth is finer than any use; JSON has no infinity.
        logprobs.push_back(std::round(1e5 * std::max(-1e9, double{guess.logprob})) / 1e5);
      }
    }
    json["texts"].push_back({{"prompt_tokens", text.prompt_tokens},
                             {"tokens", text.tokens},
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
  FieldReader top(document);
  top.accept_only({"forerun_acceptance", "vocab", "texts"});
  top.required_integer("forerun_acceptance", 1, 1);
  const int64_t vocab = top.required_integer("vocab", 1, kMaxVocab);
  auto texts = top.objects("texts");
  if (!texts) top.refuse(StatusCode::kInvalidArgument, "texts", "a list of objects");
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
