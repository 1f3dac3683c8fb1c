// Added tokens: texts that are cut out of the input before any other step, and the flags that
// control this. Const and thread-safe after build.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"
#include "json/json_value.h"
#include "text/token_table.h"

namespace forerun::text {

// The longest content of an added token. It limits the work per position of a text; real contents
// have some tens of bytes.
constexpr size_t kMaxAddedTokenBytes = 1024;

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool single_word = false;  // only if no word character is adjacent
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // includes the white space after it
  bool normalized = false;   // searched in normalized text instead of the original text
};

// Reads the list "added_tokens"; null reads as an empty list.
Result<std::vector<AddedToken>> read_added_tokens(const JsonValue& list);

// Merges the object "added_tokens_decoder" of tokenizer_config.json, which maps ids to tokens; null
// adds nothing. As in transformers, a token that the file already has takes these flags, another
// token that is in `vocab` keeps its id there, and others get the next free ids in order, which
// must be their keys.
Status merge_added_tokens_decoder(const JsonValue& decoder, const TokenTable& vocab,
                                  std::vector<AddedToken>& added);

// A range of text: an added token's id, or -1 for text in between.
struct Segment {
  size_t begin = 0, end = 0;
  int32_t id = -1;
};

// Finds one set of added tokens: leftmost first, the longest of those that begin at one position.
class AddedTokenFinder {
 public:
  // `tokens` has the contents to look for; empty contents are skipped.
  explicit AddedTokenFinder(const std::vector<AddedToken>& tokens);
  AddedTokenFinder() = default;

  bool empty() const { return tokens_.empty(); }

  // Splits well-formed text. Without `parse_special` special tokens count as text. `out` is
  // cleared.
  void find(std::string_view text, bool parse_special, std::vector<Segment>& out) const;

 private:
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> next;  // sorted by byte
    int32_t token = -1;                              // index in tokens_
  };

  struct Found {
    int32_t token = -1;
    size_t end = 0;
  };
  Found longest_at(std::string_view text, size_t begin) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::vector<bool> starts_;  // indexed by first byte
};

}  // namespace forerun::text
