#include "engine/output_formats.h"

#include <algorithm>

#include "base/status_macros.h"

namespace forerun {
namespace {

using grammar::Grammar;
using grammar::GrammarState;
using grammar::TokenMasks;

constexpr size_t kMostKept = 64;

class GrammarConstraint : public TokenConstraint {
 public:
  GrammarConstraint(Grammar grammar, std::shared_ptr<TokenMasks> masks,
                    std::vector<int32_t> end_tokens)
      : grammar_(std::move(grammar)),
        masks_(std::move(masks)),
        end_tokens_(std::move(end_tokens)) {}

  State start() const override { return std::make_shared<GrammarState>(grammar_.start()); }

  State after(const State& state, TokenId token) const override {
    const grammar::VocabularyTrie& vocabulary = masks_->vocabulary();
    if (token < 0 || token >= vocabulary.vocab_size()) return nullptr;
    const std::string_view bytes = vocabulary.token(token);
    if (bytes.empty()) return nullptr;
    auto next = std::make_shared<GrammarState>(of(state));
    return next->accept(bytes) ? next : nullptr;
  }

  void allow(const State& state, std::span<uint32_t> words) const override {
    const size_t needed = masks_->vocabulary().mask_words();
    bool may_end = false;
    if (words.size() >= needed) {
      may_end = masks_->write(of(state), words);
    } else {  // rows that are shorter than the vocabulary
      std::vector<uint32_t> all(needed);
      may_end = masks_->write(of(state), all);
      std::copy_n(all.begin(), words.size(), words.begin());
    }
    if (!may_end) return;
    for (const int32_t token : end_tokens_) {
      const auto word = static_cast<size_t>(token) / 32;
      if (word < words.size()) words[word] |= 1u << (token % 32);
    }
  }

 private:
  static const GrammarState& of(const State& state) {
    return *static_cast<const GrammarState*>(state.get());
  }

  const Grammar grammar_;
  const std::shared_ptr<TokenMasks> masks_;
  const std::vector<int32_t> end_tokens_;
};

Result<Grammar> compile(const OutputFormat& format) {
  switch (format.kind) {
    case OutputFormat::Kind::kJsonSchema:
      return Grammar::from_json_schema(format.text);
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
             kept.format.schemas == format.schemas;
    });
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return kept_.front().constraint;
    }
  }
  Result<Grammar> grammar = compile(format);
  if (!grammar.ok()) return grammar.status().with_context("output_format");
  const std::shared_ptr<TokenMasks> masks = this->masks();
  FORERUN_RETURN_IF_ERROR(masks->prepare(*grammar).with_context("output_format"));
  auto made = std::make_shared<GrammarConstraint>(std::move(*grammar), masks, end_tokens_);
  const std::lock_guard lock(mutex_);
  kept_.push_front({format, made});
  if (kept_.size() > kMostKept) kept_.pop_back();
  return std::shared_ptr<const TokenConstraint>(std::move(made));
}

}  // namespace forerun
