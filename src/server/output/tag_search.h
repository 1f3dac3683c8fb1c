// TagSearch finds the first of several tags in a text that arrives byte by byte.
//
// It returns text as soon as that text is certain to belong to no tag. White space before a tag
// belongs to it: newlines, or all white space if so configured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forerun::server {

class TagSearch {
 public:
  static constexpr int kNothing = -1;

  // No tag may be empty, begin with white space or be the beginning of another.
  explicit TagSearch(std::vector<std::string> tags) : tags_(std::move(tags)) {}

  // Takes the next byte and appends the text that belongs to no tag to `text`. Returns the index of
  // the tag that this byte completes, or kNothing. A complete tag stays in held() until clear().
  int push(char byte, std::string& text);

  // Returns the text that may belong to a tag, or a complete tag, with the white space before it.
  std::string held() const { return spaces_ + partial_; }
  std::string_view held_spaces() const { return spaces_; }
  bool holds_partial_tag() const { return !partial_.empty(); }
  void clear() {
    spaces_.clear();
    partial_.clear();
  }
  // Sets whether spaces and tabs belong to a tag like newlines.
  void hold_all_spaces(bool value) { holds_all_spaces_ = value; }

 private:
  bool is_separator(char byte) const;
  // Returns the tag that equals partial_, or kNothing; `may_go_on` says whether partial_ begins
  // one.
  int match(bool& may_go_on) const;

  std::vector<std::string> tags_;
  bool holds_all_spaces_ = false;
  std::string spaces_, partial_;
};

}  // namespace forerun::server
