#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "base/printable.h"
#include "base/status_macros.h"
#include "text/byte_alphabet.h"
#include "text/hash_bytes.h"
#include "text/utf8.h"

namespace forerun::text {
namespace {

constexpr std::string_view kMark = "\xe2\x96\x81";  // U+2581, SentencePiece's space
constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
// Up to this many symbols, scanning for the lowest rank is faster than the queue.
constexpr size_t kScanSymbols = 40;

std::string byte_token(uint32_t byte) {
  constexpr char kHex[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
}

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

Result<Bpe> Bpe::build(const TokenizerJson& json, bool byte_level) {
  Bpe bpe;
  FORERUN_RETURN_IF_ERROR(bpe.read_options(json));
  bpe.vocab_.reserve(json.vocab.size(), json.strings.size());
  for (const VocabEntry& entry : json.vocab) {
    const std::string_view token = json.view(entry.text);
    const TokenTable::Inserted inserted = bpe.vocab_.insert(token, entry.id);
    if (inserted == TokenTable::Inserted::kNew || inserted == TokenTable::Inserted::kSame) continue;
    const int32_t other = bpe.vocab_.find(token);
    return Status(StatusCode::kCorrupt,
                  json.name + ": model.vocab[" + in_quotes(token) + "]: found id " +
                      std::to_string(entry.id) +
                      (other < 0 ? ", which " + in_quotes(bpe.vocab_.text(entry.id)) +
                                       " has; accepted: one token per id"
                                 : ", and also id " + std::to_string(other) +
                                       "; accepted: one id per token"));
  }
  const JsonValue model = json.root()["model"];
  if (!model["unk_token"].is_null()) {
    FORERUN_ASSIGN_OR_RETURN(const std::string unk, model["unk_token"].as_string());
    bpe.unk_id_ = bpe.vocab_.find(unk);
    if (bpe.unk_id_ < 0 && !unk.empty()) {
      return model["unk_token"].refuse("a token of model.vocab or null", StatusCode::kCorrupt);
    }
  }
  FORERUN_RETURN_IF_ERROR(bpe.read_merges(json));
  for (uint32_t c = 0; c < 128; ++c) {
    const char text = static_cast<char>(c);
    bpe.ascii_ids_[c] = bpe.vocab_.find(std::string_view(&text, 1));
  }
  if (byte_level) bpe.index_raw_bytes();
  if (!bpe.raw_bytes_) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      bpe.byte_ids_[byte] = bpe.vocab_.find(byte_token(byte));
    }
    bpe.index_word_boundaries(json);
  }
  bpe.measure_longest_token();
  return bpe;
}

Status Bpe::read_options(const TokenizerJson& json) {
  const JsonValue model = json.root()["model"];
  if (!model.is_object()) return model.refuse("an object of type BPE", StatusCode::kCorrupt);
  // Older files lack the field; their merges identify them.
  FORERUN_ASSIGN_OR_RETURN(const std::string type,
                           model["type"].string_or(json.has_merges ? "BPE" : "unnamed"));
  if (type != "BPE") return model["type"].refuse("\"BPE\"", StatusCode::kUnsupported);
  if (json.vocab.empty()) {
    return model["vocab"].refuse("an object of tokens and ids", StatusCode::kCorrupt);
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    FORERUN_ASSIGN_OR_RETURN(const std::string affix, model[name].string_or(""));
    if (!affix.empty()) return model[name].refuse("null or \"\"", StatusCode::kUnsupported);
  }
  if (!model["dropout"].is_null() && !model["dropout"].as_number(0, 0).ok()) {
    return model["dropout"].refuse("null or 0: encoding must not depend on chance",
                                   StatusCode::kUnsupported);
  }
  FORERUN_ASSIGN_OR_RETURN(fuse_unk_, model["fuse_unk"].bool_or(false));
  FORERUN_ASSIGN_OR_RETURN(byte_fallback_, model["byte_fallback"].bool_or(false));
  FORERUN_ASSIGN_OR_RETURN(ignore_merges_, model["ignore_merges"].bool_or(false));
  return {};
}

Status Bpe::read_merges(const TokenizerJson& json) {
  merges_.resize(std::bit_ceil(2 * json.merges.size() + 16));
  const size_t mask = merges_.size() - 1;
  uint64_t print = hash_bytes(fuse_unk_ ? "fuse" : "") + (byte_fallback_ ? 3u : 5u) +
                   (ignore_merges_ ? 7u : 11u) + static_cast<uint64_t>(unk_id_ + 1);
  std::string text;
  for (size_t rank = 0; rank < json.merges.size(); ++rank) {
    const std::string_view left = json.view(json.merges[rank].left);
    const std::string_view right = json.view(json.merges[rank].right);
    text.assign(left).append(right);
    Merge merge;
    const int32_t left_id = vocab_.find(left);
    const int32_t right_id = vocab_.find(right);
    merge.joined = vocab_.find(text);
    if (left_id < 0 || right_id < 0 || merge.joined < 0) {
      return Status(StatusCode::kCorrupt,
                    json.name + ": model.merges[" + std::to_string(rank) + "]: found " +
                        in_quotes(text) + " of " + in_quotes(left) + " and " + in_quotes(right) +
                        "; accepted: pairs that are in model.vocab, as is what they join to");
    }
    merge.pair = pair_key(left_id, right_id);
    merge.rank = static_cast<uint32_t>(rank);
    print = mix_bits(print ^ merge.pair) + rank;
    size_t at = mix_bits(merge.pair) & mask;
    while (merges_[at].pair != UINT64_MAX && merges_[at].pair != merge.pair) at = (at + 1) & mask;
    merges_[at] = merge;  // a repeated pair keeps its last rank
  }
  num_ranks_ = json.merges.size();
  merges_fingerprint_ = print;
  return {};
}

void Bpe::index_raw_bytes() {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    std::string character;
    append_utf8(character_of_byte(static_cast<uint8_t>(byte)), character);
    byte_ids_[byte] = vocab_.find(character);
    // Without unknown tokens, a character or byte without a token is dropped.
    if (byte_ids_[byte] < 0 && (unk_id_ >= 0 || byte_fallback_)) return;
  }
  raw_bytes_ = true;
  if (!ignore_merges_) return;  // only ignore_merges_ needs whole words
  std::string raw;
  raw_vocab_.reserve(static_cast<size_t>(vocab_.end_id()), 8 * size_t{1} << 10);
  for (int32_t id = 0; id < vocab_.end_id(); ++id) {
    raw.clear();
    if (vocab_.has(id) && append_from_byte_alphabet(vocab_.text(id), raw)) {
      raw_vocab_.insert(raw, id);
    }
  }
}

void Bpe::index_word_boundaries(const TokenizerJson& json) {
  // The mark itself must have a token: then it ends a run of fused unknown characters in the same
  // way on both sides of the cut.
  if (vocab_.find(kMark) < 0 || ignore_merges_) return;
  cut_before_mark_.fill(true);
  cut_before_mark_[static_cast<uint8_t>(kMark.back())] = false;
  for (const MergeEntry& merge : json.merges) {
    const std::string_view left = json.view(merge.left);
    const std::string_view right = json.view(merge.right);
    for (const std::string_view side : {left, right}) {
      for (size_t at = side.find(kMark, 1); at != std::string_view::npos;
           at = side.find(kMark, at + 1)) {
        cut_before_mark_[static_cast<uint8_t>(side[at - 1])] = false;
      }
    }
    if (!left.empty() && right.starts_with(kMark)) {
      cut_before_mark_[static_cast<uint8_t>(left.back())] = false;
    }
  }
  may_cut_ = true;
}

void Bpe::measure_longest_token() {
  const bool has_all_bytes =
      std::all_of(byte_ids_.begin(), byte_ids_.end(), [](int32_t id) { return id >= 0; });
  const bool keeps_all =
      (raw_bytes_ || byte_fallback_) ? has_all_bytes : unk_id_ >= 0 && !fuse_unk_;
  if (!keeps_all) return;
  size_t longest = 4;  // a character without a token has at most 4 bytes
  std::string raw;
  for (int32_t id = 0; id < vocab_.end_id(); ++id) {
    if (!vocab_.has(id)) continue;
    raw.clear();
    const bool is_raw = raw_bytes_ && append_from_byte_alphabet(vocab_.text(id), raw);
    longest = std::max(longest, is_raw ? raw.size() : vocab_.text(id).size());
  }
  longest_token_bytes_ = longest;
}

const Bpe::Merge* Bpe::find_merge(int32_t left, int32_t right) const {
  const uint64_t key = pair_key(left, right);
  const size_t mask = merges_.size() - 1;
  for (size_t at = mix_bits(key) & mask; merges_[at].pair != UINT64_MAX; at = (at + 1) & mask) {
    if (merges_[at].pair == key) return &merges_[at];
  }
  return nullptr;
}

bool Bpe::has_bytes(std::string_view text) const {
  return raw_bytes_ && std::all_of(text.begin(), text.end(), [this](char c) {
           return byte_ids_[static_cast<uint8_t>(c)] >= 0;
         });
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  if (may_cut_) {
    size_t from = 1;
    while (from < piece.size()) {
      const size_t mark = piece.find(kMark, from);
      if (mark == std::string_view::npos) break;
      if (cut_before_mark_[static_cast<uint8_t>(piece[mark - 1])]) {
        encode_word(piece.substr(0, mark), scratch, out);
        piece.remove_prefix(mark);
        from = 1;
      } else {
        from = mark + kMark.size();
      }
    }
  }
  encode_word(piece, scratch, out);
}

void Bpe::encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const {
  if (word.size() > WordCache::kMaxWordBytes) return encode_uncached(word, scratch, out);
  const uint64_t hash = hash_bytes(word);
  const std::span<const int32_t> known = scratch.cache.find(word, hash);
  if (known.data()) {
    out.insert(out.end(), known.begin(), known.end());
    return;
  }
  const size_t before = out.size();
  encode_uncached(word, scratch, out);
  scratch.cache.put(word, hash, std::span(out).subspan(before));
}

void Bpe::encode_uncached(std::string_view word, Scratch& scratch,
                          std::vector<int32_t>& out) const {
  if (word.empty()) return;
  if (ignore_merges_) {
    const int32_t whole = raw_bytes_ ? raw_vocab_.find(word) : vocab_.find(word);
    if (whole >= 0) {
      out.push_back(whole);
      return;
    }
  }
  scratch.symbols.clear();
  split_symbols(word, scratch.symbols);
  if (scratch.symbols.size() <= kScanSymbols) {
    merge_by_scan(scratch, out);
  } else {
    merge_by_queue(scratch, out);
  }
}

void Bpe::split_symbols(std::string_view word, std::vector<int32_t>& symbols) const {
  if (raw_bytes_) {
    for (const char c : word) {
      const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
      if (id >= 0) symbols.push_back(id);
    }
    return;
  }
  bool unknown = false;  // an unknown token is added at the next known character or at the end
  while (!word.empty()) {
    const CodePoint point = first_code_point(word);
    const std::string_view character = word.substr(0, point.len_bytes);
    word.remove_prefix(point.len_bytes);
    const int32_t id = point.value < 128 ? ascii_ids_[point.value] : vocab_.find(character);
    if (id >= 0) {
      if (unknown) symbols.push_back(unk_id_);
      unknown = false;
      symbols.push_back(id);
      continue;
    }
    if (byte_fallback_ && std::all_of(character.begin(), character.end(), [this](char c) {
          return byte_ids_[static_cast<uint8_t>(c)] >= 0;
        })) {
      for (const char c : character) symbols.push_back(byte_ids_[static_cast<uint8_t>(c)]);
      continue;
    }
    if (unk_id_ < 0) continue;
    if (unknown && !fuse_unk_) symbols.push_back(unk_id_);
    unknown = true;
  }
  if (unknown) symbols.push_back(unk_id_);
}

void Bpe::merge_by_scan(Scratch& scratch, std::vector<int32_t>& out) const {
  std::vector<int32_t>& ids = scratch.symbols;
  size_t count = ids.size();
  scratch.ranks.assign(count, kNoRank);  // ranks[i] is the rank of the pair (i, i + 1)
  scratch.joined.assign(count, 0);
  uint32_t* const ranks = scratch.ranks.data();
  int32_t* const joined = scratch.joined.data();
  const auto rate = [&](size_t i) {
    const Merge* merge = find_merge(ids[i], ids[i + 1]);
    ranks[i] = merge ? merge->rank : kNoRank;
    if (merge) joined[i] = merge->joined;
  };
  for (size_t i = 0; i + 1 < count; ++i) rate(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoRank) break;
    ids[best] = joined[best];
    for (size_t i = best + 1; i + 1 < count; ++i) {
      ids[i] = ids[i + 1];
      ranks[i] = ranks[i + 1];
      joined[i] = joined[i + 1];
    }
    --count;
    ranks[count - 1] = kNoRank;
    if (best + 1 < count) rate(best);
    if (best > 0) rate(best - 1);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
}

void Bpe::merge_by_queue(Scratch& scratch, std::vector<int32_t>& out) const {
  const int32_t count = static_cast<int32_t>(scratch.symbols.size());
  std::vector<Scratch::Link>& links = scratch.links;
  PairQueue& pairs = scratch.pairs;
  links.resize(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    links[i] = {scratch.symbols[i], i - 1, i + 1 < count ? i + 1 : -1};
  }
  pairs.reset(num_ranks_);
  const auto rate = [&](int32_t pos) {
    const Merge* merge = find_merge(links[pos].id, links[links[pos].next].id);
    if (merge) pairs.push({merge->rank, pos, merge->joined});
  };
  for (int32_t i = 0; i + 1 < count; ++i) rate(i);
  while (const std::optional<PairQueue::Pair> top = pairs.pop()) {
    Scratch::Link& left = links[top->pos];
    if (left.id < 0 || left.next < 0) continue;
    Scratch::Link& right = links[left.next];
    // The pair may have changed since it was pushed.
    const Merge* merge = find_merge(left.id, right.id);
    if (!merge || merge->joined != top->joined) continue;
    left.id = top->joined;
    right.id = -1;
    left.next = right.next;
    if (right.next >= 0) links[right.next].prev = top->pos;
    if (left.prev >= 0) rate(left.prev);
    if (left.next >= 0) rate(top->pos);
  }
  for (int32_t at = 0; at >= 0; at = links[at].next) out.push_back(links[at].id);
}

void Bpe::Scratch::trim() {
  constexpr size_t kMaxKeptSymbols = size_t{1} << 16;
  if (symbols.capacity() <= kMaxKeptSymbols && links.capacity() <= kMaxKeptSymbols) return;
  symbols = {};
  links = {};
  pairs = {};
}

}  // namespace forerun::text
