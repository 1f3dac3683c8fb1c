#include "engine/submit/output_formats.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace forerun {
namespace {

using grammar::Grammar;
using grammar::GrammarLimits;
using grammar::TokenMasks;

constexpr size_t kMaxKept = 64;
// A server uses two pairs of tags: its template's, opened by the prompt or by the output.
constexpr size_t kMaxTags = 8;

// The steps that a quick prepare() may spend on masks.
constexpr uint64_t kQuickMaskSteps = 1'000'000;

Result<Grammar> compile(const OutputFormat& format, const GrammarLimits& limits) {
  switch (format.kind) {
    case OutputFormat::Kind::kJsonSchema:
      return Grammar::from_json_schema(format.text, limits, grammar::SchemaReading::kIntent);
    case OutputFormat::Kind::kGrammar: {
      std::vector<grammar::NamedSchema> schemas;
      for (const auto& [name, schema] : format.schemas) schemas.push_back({name, schema});
      return Grammar::from_text(format.text, schemas, limits);
    }
    case OutputFormat::Kind::kRegex:
      return Grammar::from_regex(format.text, limits);
    case OutputFormat::Kind::kJsonObject:
    case OutputFormat::Kind::kAny:
      break;
  }
  return Grammar::json_object();
}

}  // namespace

OutputFormats::OutputFormats(const Tokenizer& tokenizer, std::vector<int32_t> end_tokens)
    : tokenizer_(tokenizer), end_tokens_(std::move(end_tokens)) {}

std::shared_ptr<TokenMasks> OutputFormats::masks() {
  const std::lock_guard lock(mutex_);
  if (masks_ == nullptr) {
    masks_ = std::make_shared<TokenMasks>(std::make_shared<grammar::VocabularyTrie>(tokenizer_));
    threads_ = std::make_shared<MaskThreads>();
  }
  return masks_;
}

OutputFormats::KeptPtr OutputFormats::find(const OutputFormat& format) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const KeptPtr& kept) {
    return kept->format.kind == format.kind && kept->format.text == format.text &&
           kept->format.schemas == format.schemas && kept->format.reasoning == format.reasoning;
  });
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return kept_.front();
}

OutputFormats::KeptPtr OutputFormats::make(const OutputFormat& format, bool quick) {
  const auto keep = [this](Kept made) {
    KeptPtr kept = std::make_shared<const Kept>(std::move(made));
    const std::lock_guard lock(mutex_);
    kept_.push_front(kept);
    if (kept_.size() > kMaxKept) kept_.pop_back();
    return kept;
  };
  const auto refused = [&](const Status& status) -> KeptPtr {
    if (quick && status.code() == StatusCode::kResourceExhausted) return nullptr;
    return keep({.format = format, .status = status.with_context("output_format")});
  };
  Result<Grammar> grammar = compile(format, quick ? grammar::quick_limits() : GrammarLimits());
  if (!grammar.ok()) return refused(grammar.status());
  const std::shared_ptr<TokenMasks> masks = this->masks();
  const auto prepared = masks->prepare_within(*grammar, quick ? kQuickMaskSteps : UINT64_MAX);
  if (!prepared.ok()) return refused(prepared.status());
  if (!prepared->has_value()) return nullptr;
  Kept made{.format = format,
            .status = {},
            .shared = std::make_shared<const GrammarConstraint::Format>(
                GrammarConstraint::Format{.grammar = std::move(*grammar),
                                          .prepared = **prepared,
                                          .masks = masks,
                                          .end_tokens = end_tokens_,
                                          .threads = threads_})};
  if (!format.reasoning.close.empty()) {
    made.edges = ReasoningConstraint::find_edges(reasoning_tokens(format.reasoning),
                                                 GrammarConstraint(made.shared), end_tokens_);
  }
  return keep(std::move(made));
}

bool OutputFormats::prepare(const OutputFormat& format, bool quick) {
  if (format.kind == OutputFormat::Kind::kAny || end_tokens_.empty()) return true;
  return find(format) != nullptr || make(format, quick) != nullptr;
}

Result<std::shared_ptr<const TokenConstraint>> OutputFormats::constraint(
    const OutputFormat& format) {
  if (format.kind == OutputFormat::Kind::kAny) return std::shared_ptr<const TokenConstraint>();
  if (end_tokens_.empty()) {
    return Status(StatusCode::kUnsupported,
                  "output_format: needs an end token, and the checkpoint has none; accepted: no "
                  "output_format");
  }
  const KeptPtr kept = find(format);
  return constraint_of(kept != nullptr ? *kept : *make(format, /*quick=*/false));
}

Result<std::shared_ptr<const TokenConstraint>> OutputFormats::constraint_of(const Kept& kept) {
  FORERUN_RETURN_IF_ERROR(kept.status);
  auto constraint = std::make_shared<const GrammarConstraint>(kept.shared);
  if (kept.edges == nullptr) return std::shared_ptr<const TokenConstraint>(std::move(constraint));
  return std::shared_ptr<const TokenConstraint>(
      std::make_shared<const ReasoningConstraint>(kept.edges, std::move(constraint)));
}

// Reads the vocabulary without the lock: two threads may do so at once, and the first result is
// kept.
std::shared_ptr<const ReasoningTokens> OutputFormats::reasoning_tokens(
    const OutputReasoning& tags) {
  std::shared_ptr<const std::vector<std::string>> bytes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& kept : reasoning_tokens_) {
      if (kept->tags() == tags) return kept;
    }
    bytes = token_bytes_;
  }
  if (bytes == nullptr) {
    auto read = std::make_shared<std::vector<std::string>>();
    for (int32_t id = 0; id < tokenizer_.vocab_size(); ++id) {
      read->push_back(tokenizer_.token_bytes(id).value_or(""));
    }
    bytes = std::move(read);
  }
  auto made = std::make_shared<const ReasoningTokens>(tags, bytes);
  const std::lock_guard lock(mutex_);
  token_bytes_ = std::move(bytes);
  if (reasoning_tokens_.size() == kMaxTags) reasoning_tokens_.clear();
  reasoning_tokens_.push_back(made);
  return made;
}

}  // namespace forerun
