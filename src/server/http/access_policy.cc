#include "server/http/access_policy.h"

#include <algorithm>
#include <cstddef>

namespace forerun::server {
namespace {

constexpr std::string_view kBearer = "Bearer ";

// Returns "example.org:8080" or "[::1]:8080" without the port.
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end == std::string_view::npos ? host : host.substr(0, end + 1);
  }
  return host.substr(0, host.find(':'));
}

// Returns "http://example.org:8080" without the scheme.
std::string_view without_scheme(std::string_view origin) {
  const size_t end = origin.find("://");
  return end == std::string_view::npos ? std::string_view() : origin.substr(end + 3);
}

bool needs_no_key(const HttpRequest& head, bool metrics_need_key) {
  if (head.path == "/health" || head.method == "OPTIONS") return true;
  if (head.path == "/metrics") return !metrics_need_key;
  // The page itself holds no secrets; it asks for a key before all other requests.
  return head.path == "/" || head.path.starts_with("/page/");
}

bool is_json(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const size_t end = type.find_last_not_of(" \t");
  return end != std::string_view::npos &&
         equal_ignoring_case(type.substr(0, end + 1), "application/json");
}

}  // namespace

bool equal_in_constant_time(std::string_view given, std::string_view secret) {
  unsigned different = given.size() == secret.size() ? 0u : 1u;
  for (size_t idx = 0; idx < given.size(); ++idx) {
    const char other = secret.empty() ? '\0' : secret[idx % secret.size()];
    different |= static_cast<unsigned>(static_cast<unsigned char>(given[idx] ^ other));
  }
  return different == 0;
}

std::vector<std::string> hosts_of_address(const std::string& address) {
  const bool is_loopback =
      address == "localhost" || address == "::1" || address.starts_with("127.");
  if (!is_loopback) return {};
  std::vector<std::string> hosts = {"localhost", "127.0.0.1", "[::1]"};
  if (address.starts_with("127.") && address != "127.0.0.1") hosts.push_back(address);
  return hosts;
}

bool AccessPolicy::is_known_origin(std::string_view origin) const {
  return std::any_of(options_.cors_origins.begin(), options_.cors_origins.end(),
                     [&](const std::string& known) { return known == "*" || known == origin; });
}

std::string AccessPolicy::salt_of(const HttpRequest& head) const {
  if (options_.api_keys.size() < 2) return {};
  const std::optional<size_t> key = key_of(head);
  return key ? "key " + std::to_string(*key) + "\n" : std::string();
}

int32_t AccessPolicy::min_priority_of(const HttpRequest& head) const {
  const std::optional<size_t> key = key_of(head);
  return key ? options_.api_keys[*key].min_priority.value_or(options_.min_priority)
             : options_.min_priority;
}

std::optional<size_t> AccessPolicy::key_of(const HttpRequest& head) const {
  const std::string_view given = head.header("Authorization");
  if (!equal_ignoring_case(given.substr(0, kBearer.size()), kBearer)) return std::nullopt;
  std::optional<size_t> found;  // compares all keys, so that the time reveals nothing
  for (size_t idx = 0; idx < options_.api_keys.size(); ++idx) {
    const bool same =
        equal_in_constant_time(given.substr(kBearer.size()), options_.api_keys[idx].key);
    if (same) found = idx;
  }
  return found;
}

std::optional<Refusal> AccessPolicy::refuse(const HttpRequest& head) const {
  const std::string_view host = head.header("Host");
  if (!options_.hosts.empty() && head.count("Host") > 0) {
    const bool known = std::any_of(
        options_.hosts.begin(), options_.hosts.end(),
        [&](const std::string& name) { return equal_ignoring_case(name, without_port(host)); });
    if (!known) {
      return Refusal{403, "Host: found '" + std::string(host) +
                              "'; accepted: a name of this server (serve --allowed-host adds one)"};
    }
  }
  const std::string_view origin = head.header("Origin");
  const bool is_same_host = equal_ignoring_case(without_scheme(origin), host);
  if (!origin.empty() && !is_same_host && !is_known_origin(origin)) {
    return Refusal{403, "Origin: found '" + std::string(origin) +
                            "'; accepted: this server's own pages (serve --cors-origin adds "
                            "others)"};
  }
  if (!options_.api_keys.empty() && !needs_no_key(head, options_.metrics_need_key) &&
      !key_of(head)) {
    return Refusal{401,
                   "Authorization: found no API key of this server; accepted: 'Bearer KEY' with "
                   "one of its keys"};
  }
  if (head.method == "POST" && !is_json(head.header("Content-Type"))) {
    return Refusal{415, "Content-Type: found '" + std::string(head.header("Content-Type")) +
                            "'; accepted: application/json"};
  }
  if (head.method == "POST") {
    for (const std::string& coding : list_of(head.headers, "Content-Encoding")) {
      if (coding.empty() || equal_ignoring_case(coding, "identity")) continue;
      return Refusal{415,
                     "Content-Encoding: found '" + coding +
                         "'; accepted: identity, which is a body without compression",
                     {{"Accept-Encoding", "identity"}}};
    }
  }
  return std::nullopt;
}

// Returns the headers that an allowed origin may send. OpenAI's JavaScript library sends a dozen
// X-Stainless-* headers, and other libraries have headers of their own. The server ignores headers
// that it does not know, so an allowed origin may send all that it asks for.
std::string AccessPolicy::allowed_headers(const HttpRequest& head) {
  std::vector<std::string> names = {"authorization", "content-type", "x-request-id"};
  for (const std::string& name : list_of(head.headers, "Access-Control-Request-Headers")) {
    const bool is_known = std::any_of(names.begin(), names.end(), [&](const std::string& known) {
      return equal_ignoring_case(known, name);
    });
    if (is_known || name.empty() || !std::all_of(name.begin(), name.end(), is_token_char)) continue;
    names.push_back(name);
  }
  std::string allowed;
  for (const std::string& name : names) allowed += (allowed.empty() ? "" : ", ") + name;
  return allowed;
}

HttpHeaders AccessPolicy::cors_headers(const HttpRequest& head) const {
  const std::string_view origin = head.header("Origin");
  if (origin.empty() || !is_known_origin(origin)) return {};
  HttpHeaders headers = {{"Access-Control-Allow-Origin", std::string(origin)}, {"Vary", "Origin"}};
  if (head.method != "OPTIONS") {
    headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    return headers;
  }
  headers.back().second = "Origin, Access-Control-Request-Headers";
  headers.emplace_back("Access-Control-Allow-Headers", allowed_headers(head));
  headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
  headers.emplace_back("Access-Control-Max-Age", "600");
  return headers;
}

}  // namespace forerun::server
