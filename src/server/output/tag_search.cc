#include "server/output/tag_search.h"

namespace forerun::server {

bool TagSearch::is_separator(char byte) const {
  if (byte == '\n') return true;
  return holds_all_spaces_ && (byte == ' ' || byte == '\t' || byte == '\r');
}

int TagSearch::match(bool& may_go_on) const {
  may_go_on = false;
  for (size_t idx = 0; idx < tags_.size(); ++idx) {
    if (tags_[idx] == partial_) return static_cast<int>(idx);
    if (tags_[idx].starts_with(partial_)) may_go_on = true;
  }
  return kNothing;
}

int TagSearch::push(char byte, std::string& text) {
  partial_ += byte;
  while (!partial_.empty()) {
    // Tags do not begin with white space, so white space can only come before one.
    if (is_separator(partial_.front())) {
      spaces_ += partial_.front();
      partial_.erase(0, 1);
      continue;
    }
    bool may_go_on = false;
    const int tag_idx = match(may_go_on);
    if (tag_idx != kNothing) return tag_idx;
    if (may_go_on) return kNothing;
    text += spaces_;
    spaces_.clear();
    text += partial_.front();
    partial_.erase(0, 1);
  }
  return kNothing;
}

}  // namespace forerun::server
