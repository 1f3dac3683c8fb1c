// TagSearch: finds the first of some tags in a text that comes a byte at a time.
//
// Gives the text back as soon as it is certain to belong to no tag. White space that stands before
// a tag goes with it: newlines, or all white space where so told.
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

  // Takes the next byte and appends what belongs to no tag to `text`. Returns the index of the tag
  // that is complete with this byte, or kNothing. A complete tag stays in held() until clear().
  int push(char byte, std::string& text);

  // The text that may belong to a tag, or a complete tag, with the white space before it.
  std::string held() const { return spaces_ + partial_; }
  std::string_view held_spaces() const { return spaces_; }
  bool holds_partial_tag() const { return !partial_.empty(); }
  void clear() {
    spaces_.clear();
    partial_.clear();
  }
  // Whether spaces and tabs go with a tag as newlines do.
  void hold_all_spaces(bool value) { holds_all_spaces_ = value; }

 private:
  bool is_separator(char byte) const;
  // The tag that partial_ is, or kNothing; `may_go_on` says whether it begins one.
  int match(bool& may_go_on) const;

  std::vector<std::string> tags_;
  bool holds_all_spaces_ = false;
  std::string spaces_, partial_;
};

}  // namespace forerun::server
