#include "text/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/lfs_pointer.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "text/canonical_json.h"
#include "text/hash_bytes.h"
#include "text/tokenizer_impl.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace forerun {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 28;
constexpr size_t kMaxIdleScratch = 16;

Result<std::string> read_file(const std::filesystem::path& path) {
  // Opening a FIFO would wait for a writer.
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return Status(StatusCode::kNotFound, path.string() + ": is not a regular file");
  }
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    return Status(StatusCode::kNotFound, path.string() + ": cannot be opened for reading");
  }
  const std::streamoff size = file.tellg();
  if (size < 0) return Status(StatusCode::kNotFound, path.string() + ": is not a regular file");
  std::string bytes(static_cast<size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(bytes.data(), size)) {
    return Status(StatusCode::kCorrupt,
                  path.string() + ": read fewer than " + std::to_string(size) + " bytes");
  }
  FORERUN_RETURN_IF_ERROR(refuse_lfs_pointer(bytes, path.string()));
  return bytes;
}

// Hashes ids, texts and special flags, independent of their order in the file.
uint64_t hash_tokens(const text::TokenTable& tokens, const std::vector<uint8_t>& special) {
  uint64_t hash = 0;
  for (int32_t id = 0; id < tokens.end_id(); ++id) {
    if (!tokens.has(id)) continue;
    const uint64_t seed = static_cast<uint64_t>(id) * 2 + special[static_cast<size_t>(id)];
    hash = text::mix_bits(hash ^ text::hash_bytes(tokens.text(id), seed));
  }
  return hash;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& file_or_dir) {
  std::error_code error;
  const bool is_dir = std::filesystem::is_directory(file_or_dir, error);
  const std::filesystem::path file = is_dir ? file_or_dir / "tokenizer.json" : file_or_dir;
  if (is_dir && !std::filesystem::exists(file, error)) {
    const bool sentencepiece = std::filesystem::exists(file_or_dir / "tokenizer.model", error);
    return Status(StatusCode::kNotFound,
                  file.string() +
                      ": is missing; accepted: a tokenizer.json of Hugging Face tokenizers" +
                      (sentencepiece ? "; found tokenizer.model, which transformers converts: "
                                       "AutoTokenizer.from_pretrained(dir).save_pretrained(dir)"
                                     : ""));
  }
  FORERUN_ASSIGN_OR_RETURN(const std::string bytes, read_file(file));
  const std::filesystem::path config = file_or_dir / "tokenizer_config.json";
  if (!is_dir || !std::filesystem::exists(config, error)) return from_json(bytes, file.string());
  FORERUN_ASSIGN_OR_RETURN(const std::string config_bytes, read_file(config));
  return from_json(bytes, file.string(), config_bytes, config.string());
}

Result<Tokenizer> Tokenizer::from_json(std::string_view bytes, std::string name,
                                       std::string_view config_bytes, std::string config_name) {
  FORERUN_ASSIGN_OR_RETURN(const text::TokenizerJson json,
                           text::parse_tokenizer_json(bytes, std::move(name)));
  if (config_bytes.empty()) return build(json, nullptr);
  FORERUN_ASSIGN_OR_RETURN(const text::TokenizerJson config,
                           text::parse_tokenizer_json(config_bytes, std::move(config_name)));
  return build(json, &config);
}

Result<Tokenizer> Tokenizer::build(const text::TokenizerJson& json,
                                   const text::TokenizerJson* config) {
  const JsonValue root = json.root();
  FORERUN_ASSIGN_OR_RETURN(text::Normalizer normalizer,
                           text::Normalizer::build(root["normalizer"]));
  FORERUN_ASSIGN_OR_RETURN(text::PreTokenizer pre_tokenizer,
                           text::PreTokenizer::build(root["pre_tokenizer"]));
  FORERUN_ASSIGN_OR_RETURN(text::PostProcessor post_processor,
                           text::PostProcessor::build(root["post_processor"]));
  FORERUN_ASSIGN_OR_RETURN(text::TokenDecoder decoder, text::TokenDecoder::build(root["decoder"]));
  FORERUN_ASSIGN_OR_RETURN(text::Bpe bpe,
                           text::Bpe::build(json, pre_tokenizer.ends_in_byte_level()));
  if (pre_tokenizer.ends_in_byte_level() && !bpe.accepts_raw_bytes()) pre_tokenizer.spell_bytes();
  FORERUN_ASSIGN_OR_RETURN(std::vector<text::AddedToken> added,
                           text::read_added_tokens(root["added_tokens"]));
  if (config != nullptr) {
    FORERUN_RETURN_IF_ERROR(text::merge_added_tokens_decoder(config->root()["added_tokens_decoder"],
                                                             bpe.vocab(), added));
  }

  auto impl = std::make_unique<Impl>(std::move(bpe), std::move(decoder));
  impl->normalizer = std::move(normalizer);
  impl->pre_tokenizer = std::move(pre_tokenizer);
  impl->post_processor = std::move(post_processor);
  impl->tokens = impl->bpe.vocab();
  for (size_t i = 0; i < added.size(); ++i) {
    const auto inserted = impl->tokens.insert(added[i].content, added[i].id);
    if (inserted == text::TokenTable::Inserted::kNew ||
        inserted == text::TokenTable::Inserted::kSame) {
      continue;
    }
    const bool id_taken = inserted == text::TokenTable::Inserted::kIdTaken;
    return Status(StatusCode::kCorrupt,
                  json.name + ": added_tokens[" + std::to_string(i) + "]: found " +
                      in_quotes(added[i].content) + " at id " + std::to_string(added[i].id) +
                      (id_taken ? ", which " + in_quotes(impl->tokens.text(added[i].id)) + " has"
                                : ", which also has id " +
                                      std::to_string(impl->tokens.find(added[i].content))) +
                      "; accepted: one token per id and one id per token");
  }

  impl->special.assign(static_cast<size_t>(impl->tokens.end_id()), 0);
  std::vector<text::AddedToken> raw_tokens, normalized_tokens;
  text::EncodeScratch scratch;
  for (const text::AddedToken& token : added) {
    if (token.special) impl->special[static_cast<size_t>(token.id)] = 1;
    if (!token.normalized) {
      raw_tokens.push_back(token);
      continue;
    }
    normalized_tokens.push_back(token);
    FORERUN_ASSIGN_OR_RETURN(
        const std::string_view content,
        impl->normalizer.apply(token.content, scratch.normalizer, scratch.matcher));
    normalized_tokens.back().content = std::string(content);
  }
  impl->measure_longest_token(added, normalized_tokens);
  impl->raw_finder = text::AddedTokenFinder(raw_tokens);
  impl->normalized_finder = text::AddedTokenFinder(normalized_tokens);
  impl->added = std::move(added);
  for (int32_t id = 0; id < impl->tokens.end_id(); ++id) {
    impl->decoder.add_token(impl->tokens.text(id), impl->tokens.has(id),
                            !impl->bpe.vocab().has(id));
  }
  impl->splitting = text::canonical_splitting(root);
  impl->fingerprint =
      text::mix_bits(hash_tokens(impl->tokens, impl->special) ^ impl->bpe.merges_fingerprint() ^
                     text::hash_bytes(impl->splitting));
  return Tokenizer(std::move(impl));
}

std::unique_ptr<text::EncodeScratch> Tokenizer::Impl::take_scratch() const {
  {
    const std::lock_guard<std::mutex> lock(scratch_mutex);
    if (!idle_scratch.empty()) {
      std::unique_ptr<text::EncodeScratch> scratch = std::move(idle_scratch.back());
      idle_scratch.pop_back();
      return scratch;
    }
  }
  return std::make_unique<text::EncodeScratch>();
}

void Tokenizer::Impl::return_scratch(std::unique_ptr<text::EncodeScratch> scratch) const {
  // A long text leaves long buffers behind; only those of usual size are worth keeping.
  constexpr size_t kMaxKeptPieces = size_t{1} << 18;
  if (scratch->pieces.spans.capacity() > kMaxKeptPieces ||
      scratch->pieces.spans_next.capacity() > kMaxKeptPieces) {
    scratch->pieces = text::Pieces();
    scratch->normalizer = text::Normalizer::Scratch();
  }
  scratch->bpe.trim();
  const std::lock_guard<std::mutex> lock(scratch_mutex);
  if (idle_scratch.size() < kMaxIdleScratch) idle_scratch.push_back(std::move(scratch));
}

Status Tokenizer::Impl::encode_plain(std::string_view text, bool starts_input,
                                     text::EncodeScratch& scratch,
                                     std::vector<int32_t>& out) const {
  FORERUN_RETURN_IF_ERROR(pre_tokenizer.apply(text, starts_input, scratch.matcher, scratch.pieces));
  const std::string_view pieces_text = scratch.pieces.text;
  const size_t longest = bpe.longest_token_bytes();
  const auto is_over = [&](size_t bytes) {
    const size_t min_tokens = longest == 0 ? 0 : (bytes + longest - 1) / longest;
    scratch.is_over = scratch.is_over || out.size() + min_tokens > scratch.max_tokens;
    return scratch.is_over;
  };
  size_t rest = 0;
  for (const text::PieceSpan& span : scratch.pieces.spans) rest += span.end - span.begin;
  for (const text::PieceSpan& span : scratch.pieces.spans) {
    if (is_over(rest)) return {};
    bpe.encode(pieces_text.substr(span.begin, span.end - span.begin), scratch.bpe, out);
    rest -= span.end - span.begin;
  }
  static_cast<void>(is_over(0));
  return {};
}

Status Tokenizer::Impl::encode_text(std::string_view text, bool starts_input, bool parse_special,
                                    text::EncodeScratch& scratch, std::vector<int32_t>& out) const {
  raw_finder.find(text, parse_special, scratch.segments);
  for (const text::Segment& segment : scratch.segments) {
    if (scratch.is_over) return {};
    if (segment.id >= 0) {
      out.push_back(segment.id);
      scratch.is_over = out.size() > scratch.max_tokens;
      continue;
    }
    FORERUN_ASSIGN_OR_RETURN(
        const std::string_view normalized,
        normalizer.apply(text.substr(segment.begin, segment.end - segment.begin),
                         scratch.normalizer, scratch.matcher));
    const bool starts = starts_input && segment.begin == 0;
    if (normalized_finder.empty()) {
      FORERUN_RETURN_IF_ERROR(encode_plain(normalized, starts, scratch, out));
      continue;
    }
    normalized_finder.find(normalized, parse_special, scratch.normalized_segments);
    for (const text::Segment& inner : scratch.normalized_segments) {
      if (scratch.is_over) return {};
      if (inner.id >= 0) {
        out.push_back(inner.id);
        scratch.is_over = out.size() > scratch.max_tokens;
        continue;
      }
      FORERUN_RETURN_IF_ERROR(encode_plain(normalized.substr(inner.begin, inner.end - inner.begin),
                                           starts && inner.begin == 0, scratch, out));
    }
  }
  return {};
}

bool Tokenizer::Impl::keeps_ill_formed(std::string_view text) const {
  if (!bpe.accepts_raw_bytes()) return false;
  while (!text.empty()) {
    text.remove_prefix(text::well_formed_prefix(text));
    const uint32_t bad = text::first_code_point(text).len_bytes;
    if (!bpe.has_bytes(text.substr(0, bad))) return false;
    text.remove_prefix(bad);
  }
  return true;
}

Status Tokenizer::Impl::encode_replaced(std::string_view text, bool parse_special,
                                        text::EncodeScratch& scratch,
                                        std::vector<int32_t>& out) const {
  if (text::is_well_formed(text)) return encode_text(text, true, parse_special, scratch, out);
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  if (bpe.accepts_raw_bytes() && !bpe.has_bytes(kReplacement)) {
    return Status(StatusCode::kInvalidArgument,
                  "text: found bytes that are not UTF-8 at byte " +
                      std::to_string(text::well_formed_prefix(text)) +
                      ", and the vocabulary has tokens neither for them nor for U+FFFD in their "
                      "place; accepted: UTF-8");
  }
  return encode_text(text::replace_ill_formed(text), true, parse_special, scratch, out);
}

Status Tokenizer::Impl::encode_bytes(std::string_view text, bool parse_special,
                                     text::EncodeScratch& scratch,
                                     std::vector<int32_t>& out) const {
  bool starts_input = true;
  while (!text.empty() && !scratch.is_over) {
    const size_t good = text::well_formed_prefix(text);
    FORERUN_RETURN_IF_ERROR(
        encode_text(text.substr(0, good), starts_input, parse_special, scratch, out));
    text.remove_prefix(good);
    size_t bad = 0;
    while (bad < text.size()) {
      const text::CodePoint point = text::first_code_point(text.substr(bad));
      if (point.well_formed) break;
      bad += point.len_bytes;
    }
    if (bad > 0) bpe.encode(text.substr(0, bad), scratch.bpe, out);
    text.remove_prefix(bad);
    starts_input = false;
  }
  return {};
}

void Tokenizer::Impl::measure_longest_token(const std::vector<text::AddedToken>& raw,
                                            const std::vector<text::AddedToken>& normalized) {
  const size_t shrink = normalizer.max_shrink();
  if (bpe.longest_token_bytes() == 0 || shrink == 0 || !pre_tokenizer.keeps_all()) return;
  size_t longest = bpe.longest_token_bytes();
  for (const auto* list : {&raw, &normalized}) {
    for (const text::AddedToken& token : *list) {
      if (token.lstrip || token.rstrip) return;  // it includes any number of blanks around it
      longest = std::max(longest, token.content.size());
    }
  }
  longest_token_bytes = longest * shrink;
}

bool Tokenizer::Impl::is_certainly_over(size_t text_bytes, size_t max_tokens) const {
  return longest_token_bytes > 0 && text_bytes / longest_token_bytes > max_tokens;
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions& options) const {
  bool unused = false;
  return impl_->encode(text, options, SIZE_MAX, &unused);
}

Result<std::optional<std::vector<int32_t>>> Tokenizer::encode_within(
    std::string_view text, size_t max_tokens, const EncodeOptions& options) const {
  bool is_over = impl_->is_certainly_over(text.size(), max_tokens);
  if (is_over) return std::optional<std::vector<int32_t>>();
  FORERUN_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                           impl_->encode(text, options, max_tokens, &is_over));
  if (is_over) return std::optional<std::vector<int32_t>>();
  return std::optional<std::vector<int32_t>>(std::move(ids));
}

Result<std::vector<int32_t>> Tokenizer::Impl::encode(std::string_view text,
                                                     const EncodeOptions& options,
                                                     size_t max_tokens, bool* is_over) const {
  if (text.size() > kMaxTextBytes) {
    return Status(StatusCode::kInvalidArgument,
                  "text of " + std::to_string(text.size()) + " bytes; accepted: at most 256 MiB");
  }
  std::vector<int32_t> out;
  if (options.add_special_tokens) out = post_processor.before;
  out.reserve(out.size() + std::min(text.size() / 3, max_tokens) + 8);
  std::unique_ptr<text::EncodeScratch> scratch = take_scratch();
  scratch->max_tokens = max_tokens;
  scratch->is_over = false;
  const Status status = keeps_ill_formed(text)
                            ? encode_bytes(text, options.parse_special, *scratch, out)
                            : encode_replaced(text, options.parse_special, *scratch, out);
  const bool was_over = scratch->is_over;
  return_scratch(std::move(scratch));
  FORERUN_RETURN_IF_ERROR(status);
  if (options.add_special_tokens) {
    out.insert(out.end(), post_processor.behind.begin(), post_processor.behind.end());
  }
  *is_over = was_over || out.size() > max_tokens;
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string out;
  text::DecodeState state;
  for (const int32_t id : ids) {
    if (skip_special && is_special(id)) continue;
    impl_->decoder.push(id, state, out);
  }
  impl_->decoder.finish(state, out);
  return out;
}

int32_t Tokenizer::vocab_size() const { return impl_->tokens.end_id(); }

std::optional<std::string> Tokenizer::token_bytes(int32_t id) const {
  return impl_->decoder.bytes_of(id);
}
std::string_view Tokenizer::token_text(int32_t id) const { return impl_->tokens.text(id); }

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < impl_->tokens.end_id() && impl_->special[static_cast<size_t>(id)] != 0;
}

std::optional<int32_t> Tokenizer::token_id(std::string_view token) const {
  const int32_t id = impl_->tokens.find(token);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

uint64_t Tokenizer::fingerprint() const { return impl_->fingerprint; }

}  // namespace forerun
