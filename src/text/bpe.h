// Byte-pair encoding of one piece of text.
//
// A piece starts as its characters (or bytes); the adjacent pair of lowest merge rank, leftmost
// among equals, is joined until no pair has a rank. Const and thread-safe after build; every caller
// brings its own Scratch.
//
// Time: O(n log n) for any piece of n symbols, and O(n) if new pairs appear from left to right, as
// in runs of one character; short words are scanned instead, and words seen before are copied from
// the scratch's cache.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "forerun/status.h"
#include "text/pair_queue.h"
#include "text/token_table.h"
#include "text/tokenizer_json.h"
#include "text/word_cache.h"

namespace forerun::text {

class Bpe {
 public:
  struct Scratch {
    WordCache cache;
    std::vector<int32_t> symbols;
    struct Link {
      int32_t id, prev, next;
    };
    std::vector<Link> links;
    PairQueue pairs;
    std::vector<uint32_t> ranks;
    std::vector<int32_t> joined;

    // Frees the memory that a word of megabytes has left behind.
    void trim();
  };

  // `byte_level`: pieces are raw bytes although the vocabulary is written in the byte alphabet
  // (byte_alphabet.h), if accepts_raw_bytes() returns true.
  static Result<Bpe> build(const TokenizerJson& json, bool byte_level);

  // Returns whether pieces must be raw bytes. If it returns false despite byte_level, the
  // vocabulary lacks a byte and has an unknown token for it, so pieces must be written in the byte
  // alphabet.
  bool accepts_raw_bytes() const { return raw_bytes_; }
  // Returns whether a word that is a token becomes that token, regardless of merges.
  bool ignores_merges() const { return ignore_merges_; }

  // Returns whether raw bytes can be encoded one by one: every byte of `text` has a token.
  bool has_bytes(std::string_view text) const;

  // Appends the ids of `piece`. A character without a token becomes byte tokens, the unknown token
  // or nothing, as the file says.
  void encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const;

  // Returns the largest number of a piece's bytes that one token can represent; 0 if there is no
  // such number, since bytes may be dropped, or many unknown characters become one token.
  size_t longest_token_bytes() const { return longest_token_bytes_; }

  // Returns the vocabulary as written in the file.
  const TokenTable& vocab() const { return vocab_; }
  // Returns a fingerprint of the merges and options, on which `encode` depends in addition to the
  // vocabulary.
  uint64_t merges_fingerprint() const { return merges_fingerprint_; }

 private:
  struct Merge {
    uint64_t pair = UINT64_MAX;  // left << 32 | right
    uint32_t rank = 0;
    int32_t joined = 0;
  };

  Bpe() = default;
  Status read_options(const TokenizerJson& json);
  Status read_merges(const TokenizerJson& json);
  void index_raw_bytes();
  void index_word_boundaries(const TokenizerJson& json);
  void measure_longest_token();

  const Merge* find_merge(int32_t left, int32_t right) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  void encode_uncached(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  void split_symbols(std::string_view word, std::vector<int32_t>& symbols) const;
  void merge_by_scan(Scratch& scratch, std::vector<int32_t>& out) const;
  void merge_by_queue(Scratch& scratch, std::vector<int32_t>& out) const;

  TokenTable vocab_;
  TokenTable raw_vocab_;       // raw_bytes_ only: the tokens as the bytes that they represent
  std::vector<Merge> merges_;  // open addressing; size is a power of two
  std::array<int32_t, 256> byte_ids_{};  // raw bytes or byte fallback tokens; -1: absent
  std::array<int32_t, 128> ascii_ids_{};
  int32_t unk_id_ = -1;
  bool fuse_unk_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;
  bool raw_bytes_ = false;
  // Whether text may be cut between a character with the index as its last byte and a following
  // U+2581: true if no token contains the two side by side, so that no merge can cross.
  std::array<bool, 256> cut_before_mark_{};
  bool may_cut_ = false;
  size_t num_ranks_ = 0;
  size_t longest_token_bytes_ = 0;
  uint64_t merges_fingerprint_ = 0;
};

}  // namespace forerun::text
