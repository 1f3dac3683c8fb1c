#include "hosts/host_file.h"

#include <algorithm>

namespace forerun {
namespace {

constexpr size_t kLongestName = 253;  // of the domain name system

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_host_name(std::string_view name) {
  return name.size() <= kLongestName && is_letter_or_digit(name.front()) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_' || c == ':';
         });
}

}  // namespace

Result<std::vector<std::string>> parse_host_file(std::string_view text, const std::string& file) {
  std::vector<std::string> hosts;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    std::string_view name = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    name = name.substr(0, name.find('#'));
    constexpr std::string_view kBlank = " \t\r";
    const size_t first = name.find_first_not_of(kBlank);
    if (first == std::string_view::npos) continue;
    name = name.substr(first, name.find_last_not_of(kBlank) + 1 - first);
    if (!is_host_name(name)) {
      return Status(StatusCode::kInvalidArgument, file + ", line " + std::to_string(line) +
                                                      ": found '" + std::string(name) +
                                                      "', accepted is a host's name or address");
    }
    hosts.emplace_back(name);
  }
  if (hosts.size() < 2) {
    return Status(StatusCode::kInvalidArgument,
                  file + ": found " + std::to_string(hosts.size()) +
                      " hosts, accepted are 2 and more: one that has the text and the draft, and "
                      "one a stage");
  }
  return hosts;
}

}  // namespace forerun
