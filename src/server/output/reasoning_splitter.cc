#include "server/output/reasoning_splitter.h"

namespace forerun::server {
namespace {

TagSearch search_for(std::string_view tag) {
  return TagSearch(tag.empty() ? std::vector<std::string>() : std::vector{std::string(tag)});
}

}  // namespace

ReasoningSplitter::ReasoningSplitter(ReasoningFormat format, bool begins_inside)
    : place_(format == ReasoningFormat::kNone ? Place::kContent
             : begins_inside                  ? Place::kInsideStart
                                              : Place::kBefore),
      open_(search_for(reasoning_tags(format).open)),
      close_(search_for(reasoning_tags(format).close)) {
  open_.hold_all_spaces(true);
}

void ReasoningSplitter::push(std::string_view text, std::string& reasoning, std::string& content) {
  for (size_t idx = 0; idx < text.size(); ++idx) {
    const char byte = text[idx];
    switch (place_) {
      case Place::kBefore:
        if (open_.push(byte, content) != TagSearch::kNothing) {
          place_ = Place::kInsideStart;
        } else if (!content.empty()) {
          // It begins with other text, and no tag counts from here on.
          content += open_.held();
          place_ = Place::kContent;
        }
        break;
      case Place::kInsideStart:
        if (byte == '\n') break;
        place_ = Place::kInside;
        [[fallthrough]];
      case Place::kInside:
        if (close_.push(byte, reasoning) != TagSearch::kNothing) place_ = Place::kAfter;
        break;
      case Place::kAfter:
        if (byte == '\n') break;
        place_ = Place::kContent;
        [[fallthrough]];
      case Place::kContent:
        content += text.substr(idx);
        return;
    }
  }
}

void ReasoningSplitter::finish(std::string& content, bool is_cut) {
  if (place_ != Place::kBefore) return;
  content += is_cut ? std::string(open_.held_spaces()) : open_.held();
}

}  // namespace forerun::server
