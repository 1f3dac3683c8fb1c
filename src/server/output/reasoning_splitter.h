// ReasoningSplitter separates the reasoning at the start of an answer from its content.
#pragma once

#include <string>
#include <string_view>

#include "server/output/reasoning_format.h"
#include "server/output/tag_search.h"

namespace forerun::server {

class ReasoningSplitter {
 public:
  ReasoningSplitter(ReasoningFormat format, bool begins_inside);

  // Appends the parts of `text` that are certain to `reasoning` and `content`. Newlines at both
  // ends of the reasoning and before the content after it are dropped.
  void push(std::string_view text, std::string& reasoning, std::string& content);
  // Ends the text. `is_cut`: something other than the model ended it, perhaps within a tag.
  void finish(std::string& content, bool is_cut);

 private:
  enum class Place : uint8_t {
    kBefore,       // white space, or the opening tag
    kInsideStart,  // newlines
    kInside,
    kAfter,  // newlines
    kContent,
  };

  Place place_;
  TagSearch open_, close_;
};

}  // namespace forerun::server
