#include "server/http/request_head.h"

#include <algorithm>
#include <array>

#include "server/http/http_chars.h"

namespace forerun::server {
namespace {

using Fault = std::optional<HeadFault>;

// If one of these were repeated, two readers might use different values.
constexpr std::array<std::string_view, 5> kOnce = {"Host", "Content-Length", "Content-Type",
                                                   "Authorization", "Origin"};
// The methods of RFC 9110 and RFC 5789; routes answer 404 or 405 to methods that they do not
// support.
constexpr std::array<std::string_view, 8> kMethods = {"GET",    "HEAD",    "POST",  "PUT",
                                                      "DELETE", "OPTIONS", "TRACE", "PATCH"};

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

// Checks the rules of RFC 9112, 6.1 and 6.3.
Fault check_body_length(const HttpRequest& head) {
  const bool has_length = head.count("Content-Length") > 0;
  if (has_length) {
    const std::string_view length = head.header("Content-Length");
    if (length.empty() || !std::all_of(length.begin(), length.end(), is_digit)) {
      return HeadFault{
          400, "Content-Length: found '" + std::string(length) + "'; accepted: one decimal number"};
    }
  }
  if (head.count("Transfer-Encoding") == 0) return std::nullopt;
  if (has_length) {
    return HeadFault{400, "Content-Length: found beside Transfer-Encoding; accepted: one of them"};
  }
  if (head.version < 11) {
    return HeadFault{400, "Transfer-Encoding: found in HTTP/1.0, which does not have it"};
  }
  const std::vector<std::string> codings = list_of(head.headers, "Transfer-Encoding");
  const auto is_chunked = [](const std::string& coding) {
    return equal_ignoring_case(coding, "chunked");
  };
  if (std::count_if(codings.begin(), codings.end(), is_chunked) != 1 ||
      !is_chunked(codings.back())) {
    return HeadFault{400, "Transfer-Encoding: found '" +
                              std::string(head.header("Transfer-Encoding")) +
                              "', which does not say where the body ends; accepted: 'chunked'"};
  }
  if (codings.size() == 1) return std::nullopt;
  return HeadFault{501, "Transfer-Encoding: found '" + codings.front() +
                            "', which this server does not decode; accepted: 'chunked'"};
}

// Accepts RFC 3986's unreserved characters, sub-delims and '%'.
bool is_host_char(char byte) {
  const auto is_one_of = [byte](std::string_view set) {
    return set.find(byte) != std::string_view::npos;
  };
  return (is_token_char(byte) && !is_one_of("#^`|")) || is_one_of("()=,;");
}

// Accepts uri-host [":" port], such as "example.org" or "[::1]:8080".
bool is_host(std::string_view value) {
  size_t end = 0;
  if (value.starts_with('[')) {
    end = value.find(']');
    if (end == std::string_view::npos || end == 1) return false;
    const std::string_view address = value.substr(1, end - 1);
    if (!std::all_of(address.begin(), address.end(),
                     [](char byte) { return is_host_char(byte) || byte == ':'; })) {
      return false;
    }
    ++end;
  } else {
    while (end < value.size() && is_host_char(value[end])) ++end;
    if (end == 0) return false;
  }
  if (end == value.size()) return true;
  return value[end] == ':' &&
         std::all_of(value.begin() + static_cast<std::ptrdiff_t>(end) + 1, value.end(), is_digit);
}

Fault check_host(const HttpRequest& head) {
  if (head.count("Host") == 0) {
    if (head.version < 11) return std::nullopt;
    return HeadFault{400, "Host: found none; accepted: one, which HTTP/1.1 requires"};
  }
  const std::string_view host = head.header("Host");
  if (host.empty() || is_host(host)) return std::nullopt;
  return HeadFault{400, "Host: found '" + std::string(host) +
                            "'; accepted: a name or an address, with or without a port"};
}

Fault check_expectation(const HttpRequest& head) {
  if (head.version < 11) return std::nullopt;
  for (const std::string& member : list_of(head.headers, "Expect")) {
    if (member.empty() || equal_ignoring_case(member, "100-continue")) continue;
    return HeadFault{417, "Expect: found '" + member + "'; accepted: 100-continue"};
  }
  return std::nullopt;
}

HeadFault bad_target(std::string_view target, const char* accepted) {
  constexpr size_t kMaxShown = 100;
  return {400, "request line: found the target '" + std::string(target.substr(0, kMaxShown)) +
                   "'; accepted: " + accepted};
}

// Returns false on a '%' without two hexadecimal digits, or on one that encodes a control
// character.
bool decode_path(std::string_view path, std::string& out) {
  for (size_t at = 0; at < path.size(); ++at) {
    if (path[at] != '%') {
      out.push_back(path[at]);
      continue;
    }
    const int high = at + 2 < path.size() ? hex_value(path[at + 1]) : -1;
    const int low = at + 2 < path.size() ? hex_value(path[at + 2]) : -1;
    if (high < 0 || low < 0) return false;
    const int byte = high * 16 + low;
    if (byte < 0x20 || byte == 0x7f) return false;
    out.push_back(static_cast<char>(byte));
    at += 2;
  }
  return true;
}

// Takes the host of a target: "http://example.org/path" becomes "/path", and its host becomes the
// request's (RFC 9112, 3.2.2).
Fault take_host(std::string_view& target, HttpRequest& head) {
  const std::string_view whole = target;
  const size_t scheme = target.find("://");
  const std::string_view name = target.substr(0, std::min(scheme, target.size()));
  if (scheme == std::string_view::npos ||
      (!equal_ignoring_case(name, "http") && !equal_ignoring_case(name, "https"))) {
    return bad_target(whole, "one that begins with '/', 'http://' or 'https://'");
  }
  target.remove_prefix(scheme + 3);
  const size_t end = std::min(target.find_first_of("/?#"), target.size());
  const std::string host(target.substr(0, end));
  if (!is_host(host)) return bad_target(whole, "one whose host is a name or an address");
  target.remove_prefix(end);
  std::erase_if(head.headers,
                [](const auto& field) { return equal_ignoring_case(field.first, "Host"); });
  head.headers.emplace_back("Host", host);
  return std::nullopt;
}

Fault read_target(std::string_view target, HttpRequest& head) {
  const std::string_view whole = target;
  const bool names_server = head.method == "OPTIONS";
  if (target == "*") {
    if (!names_server) return bad_target(whole, "'*' with OPTIONS alone");
    head.path = "*";
    return std::nullopt;
  }
  if (!target.starts_with('/')) {
    if (Fault fault = take_host(target, head)) return fault;
    if (target.empty()) {
      head.path = names_server ? "*" : "/";
      return std::nullopt;
    }
  }
  if (target.find('#') != std::string_view::npos) {
    return bad_target(whole, "one without a fragment");
  }
  const size_t mark = std::min(target.find('?'), target.size());
  if (mark < target.size()) head.query = target.substr(mark + 1);
  head.path.clear();
  if (!decode_path(target.substr(0, mark), head.path)) {
    return bad_target(whole,
                      "one where '%' is followed by two hexadecimal digits, and stands for "
                      "no control character");
  }
  if (head.path.empty()) head.path = "/";
  return std::nullopt;
}

}  // namespace

std::optional<HeadFault> read_head(std::string_view target, HttpRequest& head) {
  for (const std::string_view name : kOnce) {
    if (head.count(name) < 2) continue;
    return HeadFault{400, std::string(name) + ": found " + std::to_string(head.count(name)) +
                              " of them; accepted: one"};
  }
  if (Fault fault = check_body_length(head)) return fault;
  if (Fault fault = check_host(head)) return fault;
  if (std::find(kMethods.begin(), kMethods.end(), head.method) == kMethods.end()) {
    return HeadFault{501, "request line: found the method '" + head.method.substr(0, 40) +
                              "', which this server does not know"};
  }
  if (Fault fault = read_target(target, head)) return fault;
  return check_expectation(head);
}

bool ends_in_http_version(std::string_view line) {
  constexpr std::string_view kName = "HTTP/";
  constexpr size_t kLength = 8;  // "HTTP/2.0"
  if (line.size() <= kLength || line[line.size() - kLength - 1] != ' ') return false;
  const std::string_view version = line.substr(line.size() - kLength);
  return version.starts_with(kName) && is_digit(version[5]) && version[6] == '.' &&
         is_digit(version[7]);
}

}  // namespace forerun::server
