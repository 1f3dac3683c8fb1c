// EndNames: takes names of end tokens off the end of a text that comes in pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forerun::server {

class EndNames {
 public:
  // Empty names are ignored. Where one name is the beginning of another the shorter is seen.
  explicit EndNames(std::vector<std::string> names);

  // Appends to `out` what is certain not to be at the end.
  void push(std::string_view text, std::string& out);
  // Ends the text: the beginning of a name that was never completed is text.
  void finish(std::string& out);

 private:
  void take(char byte, std::string& out);

  std::vector<std::string> names_;
  std::string complete_;  // whole names, which are removed if nothing follows
  std::string partial_;   // the beginning of one
};

}  // namespace forerun::server
