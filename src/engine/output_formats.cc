#include "engine/output_formats.h"

#include <algorithm>

namespace forerun {
namespace {

using grammar::Grammar;
using grammar::TokenMasks;

constexpr size_t kMaxKept = 64;
// A server uses two: its template's tags, opened by the prompt or by the output.
constexpr size_t kMaxTags = 8;

Result<Grammar> compile(const OutputFormat& format) {
  switch (format.kind) {
    case OutputFormat::Kind::kJsonSchema:
      return Grammar::from_json_schema(format.text, {}, grammar::SchemaReading::kIntent);
    case OutputFormat::Kind::kGrammar: {
      std::vector<grammar::NamedSchema> schemas;
      for (const auto& [name, schema] : format.schemas) schemas.push_back({name, schema});
      return Grammar::from_text(format.text, schemas);
    }
    case OutputFormat::Kind::kRegex:
      return Grammar::from_regex(format.text);
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

Result<std::shared_ptr<const TokenConstraint>> OutputFormats::constraint(
    const OutputFormat& format) {
  if (format.kind == OutputFormat::Kind::kAny) return std::shared_ptr<const TokenConstraint>();
  if (end_tokens_.empty()) {
    return Status(StatusCode::kUnsupported,
                  "output_format: the checkpoint has no end token, which an output must be able to "
                  "end with");
  }
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
      return kept.format.kind == format.kind && kept.format.text == format.text &&
             kept.format.schemas == format.schemas && kept.format.reasoning == format.reasoning;
    });
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return constraint_of(kept_.front());
    }
  }
  Result<Grammar> grammar = compile(format);
  if (!grammar.ok()) return grammar.status().with_context("output_format");
  const std::shared_ptr<TokenMasks> masks = this->masks();
  const Result<uint32_t> prepared = masks->prepare(*grammar);
  if (!prepared.ok()) return prepared.status().with_context("output_format");
  Kept made{.format = format,
            .shared = std::make_shared<const GrammarConstraint::Format>(
                GrammarConstraint::Format{.grammar = std::move(*grammar),
                                          .prepared = *prepared,
                                          .masks = masks,
                                          .end_tokens = end_tokens_,
                                          .threads = threads_})};
  if (!format.reasoning.close.empty()) {
    made.edges = ReasoningConstraint::find_edges(reasoning_tokens(format.reasoning),
                                                 GrammarConstraint(made.shared), end_tokens_);
  }
  const std::lock_guard lock(mutex_);
  kept_.push_front(std::move(made));
  if (kept_.size() > kMaxKept) kept_.pop_back();
  return constraint_of(kept_.front());
}

std::shared_ptr<const TokenConstraint> OutputFormats::constraint_of(const Kept& kept) {
  auto constraint = std::make_shared<const GrammarConstraint>(kept.shared);
  if (kept.edges == nullptr) return constraint;
  return std::make_shared<const ReasoningConstraint>(kept.edges, std::move(constraint));
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
