#include "server/http/http_message.h"

#include <algorithm>

namespace forerun::server {
namespace {

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return {};
}

size_t HttpRequest::count(std::string_view name) const {
  return static_cast<size_t>(std::count_if(headers.begin(), headers.end(), [&](const auto& field) {
    return equal_ignoring_case(field.first, name);
  }));
}

bool is_token_char(char byte) {
  const bool is_alphanumeric =
      (byte >= '0' && byte <= '9') || (lower(byte) >= 'a' && lower(byte) <= 'z');
  return is_alphanumeric ||
         (byte != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(byte) != std::string_view::npos);
}

std::vector<std::string> list_of(const HttpHeaders& headers, std::string_view name) {
  std::vector<std::string> members;
  for (const auto& [key, value] : headers) {
    if (!equal_ignoring_case(key, name)) continue;
    for (size_t begin = 0; begin <= value.size();) {
      const size_t end = std::min(value.find(',', begin), value.size());
      const std::string_view member = std::string_view(value).substr(begin, end - begin);
      const size_t first = member.find_first_not_of(" \t");
      const size_t last = member.find_last_not_of(" \t");
      members.emplace_back(first == std::string_view::npos
                               ? std::string_view()
                               : member.substr(first, last + 1 - first));
      begin = end + 1;
    }
  }
  return members;
}

}  // namespace forerun::server
