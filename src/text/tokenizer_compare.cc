#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/printable.h"
#include "text/canonical_json.h"
#include "text/gguf_pre_kinds.h"
#include "text/tokenizer_impl.h"

namespace forerun {
namespace {

std::string shown(const text::TokenTable& tokens, int32_t id) {
  if (!tokens.has(id)) return "none";
  std::string text(1, '"');
  text.append(tokens.text(id).substr(0, 60));
  text.push_back('"');
  return text;
}

Status different(const std::string& what) {
  return Status(StatusCode::kInvalidArgument,
                "draft and target have different tokenizers: " + what +
                    "; accepted: a draft with the target's vocabulary (special tokens and the size "
                    "of the embedding may differ)");
}

std::string splitting_of(const text::GgufPreKind& kind) {
  const nlohmann::json document = {{"normalizer", text::normalizer_json(kind)},
                                   {"pre_tokenizer", text::pre_tokenizer_json(kind)}};
  return text::canonical_splitting(JsonValue(&document));
}

}  // namespace

Status check_same_tokenizer(const Tokenizer& target, const Tokenizer& draft) {
  if (target.fingerprint() == draft.fingerprint()) return {};
  const text::TokenTable& wanted = target.impl_->tokens;
  const text::TokenTable& given = draft.impl_->tokens;
  const int32_t end_id = std::max(wanted.end_id(), given.end_id());
  for (int32_t id = 0; id < end_id; ++id) {
    const bool target_plain = wanted.has(id) && !target.is_special(id);
    const bool draft_plain = given.has(id) && !draft.is_special(id);
    if (!target_plain && !draft_plain) continue;
    if (wanted.has(id) && given.has(id) && wanted.text(id) == given.text(id)) continue;
    return different("token " + std::to_string(id) + " is " + shown(wanted, id) +
                     " in the target and " + shown(given, id) + " in the draft");
  }
  if (target.impl_->bpe.merges_fingerprint() != draft.impl_->bpe.merges_fingerprint()) {
    return different("their merges or the model's options differ");
  }
  if (target.impl_->splitting != draft.impl_->splitting) {
    return different("the target's normalizer and pre-tokenizer are " +
                     target.impl_->splitting.substr(0, 200) + ", the draft's " +
                     draft.impl_->splitting.substr(0, 200));
  }
  return {};
}

Result<std::string_view> gguf_pre_of(const Tokenizer& tokenizer) {
  const Tokenizer::Impl& impl = *tokenizer.impl_;
  bool splits_alike = false;
  for (const text::GgufPreKind& kind : text::gguf_pre_kinds()) {
    if (splitting_of(kind) != impl.splitting) continue;
    if (kind.ignore_merges == impl.bpe.ignores_merges()) return kind.name;
    splits_alike = true;
  }
  if (splits_alike) {
    const bool found = impl.bpe.ignores_merges();
    return Status(StatusCode::kUnsupported,
                  std::string("tokenizer.json: model.ignore_merges: found ") +
                      (found ? "true; accepted: false" : "false; accepted: true") +
                      " with this pre_tokenizer: no tokenizer.ggml.pre combines the two");
  }
  return Status(StatusCode::kUnsupported,
                "tokenizer.json: normalizer and pre_tokenizer: found " +
                    in_quotes(impl.splitting.substr(0, 200)) +
                    "; accepted: those of a kind of GGUF's tokenizer.ggml.pre, which are " +
                    text::gguf_pre_kind_names());
}

}  // namespace forerun
