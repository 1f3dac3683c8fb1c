// EndNames removes names of end tokens from the end of a text that arrives in pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forerun::server {

class EndNames {
 public:
  // Ignores empty names. If one name is the beginning of another, the shorter one is recognized.
  explicit EndNames(std::vector<std::string> names);

  // Appends the text that is certainly not at the end to `out`.
  void push(std::string_view text, std::string& out);
  // Ends the text: the beginning of an incomplete name is text.
  void finish(std::string& out);

 private:
  void take(char byte, std::string& out);

  std::vector<std::string> names_;
  std::string complete_;  // whole names, which are removed if nothing follows
  std::string partial_;   // the beginning of a name
};

}  // namespace forerun::server
