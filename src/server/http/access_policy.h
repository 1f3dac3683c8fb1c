// Access control: API keys, and checks that keep a foreign web page from using a server on its
// visitor's machine (DNS rebinding, cross-site requests).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/api_keys.h"
#include "server/http/http_message.h"

namespace forerun::server {

struct AccessOptions {
  // Any of them is accepted as `Authorization: Bearer KEY`. Empty: no key is needed.
  std::vector<ApiKey> api_keys;
  // The smallest value of "priority" that a client may send; lower values are served first.
  int32_t min_priority = 0;
  bool metrics_need_key = true;
  // Names and addresses, without ports, that a Host header may have. Empty: any.
  std::vector<std::string> hosts;
  // Origins of foreign web pages that may use the server ("https://chat.example"), in the form that
  // browsers send; "*": any.
  std::vector<std::string> cors_origins;
};

struct Refusal {
  int status = 403;
  std::string message;
  HttpHeaders headers = {};  // headers of the answer
};

class AccessPolicy {
 public:
  explicit AccessPolicy(AccessOptions options) : options_(std::move(options)) {}

  // Returns the reason to refuse a request by its headers; nothing if it is accepted. Checks Host,
  // Origin, the key, and the content type and coding of the body, in this order. A request without
  // Host is accepted, since no browser sends one.
  std::optional<Refusal> refuse(const HttpRequest& head) const;
  // Returns a salt that separates the cached prefixes of clients with different keys: it identifies
  // the request's key. Empty if there is at most one key.
  std::string salt_of(const HttpRequest& head) const;
  // Returns the smallest "priority" that the request may ask for, by its key.
  int32_t min_priority_of(const HttpRequest& head) const;
  // Returns the headers that let a page of the request's Origin read the answer.
  HttpHeaders cors_headers(const HttpRequest& head) const;

 private:
  bool is_known_origin(std::string_view origin) const;
  static std::string allowed_headers(const HttpRequest& head);
  // Returns the index of the request's key in api_keys.
  std::optional<size_t> key_of(const HttpRequest& head) const;

  const AccessOptions options_;
};

// Returns the hosts for AccessOptions::hosts of a server that listens on `address`: those of the
// loopback interface, or none if clients may use any name.
std::vector<std::string> hosts_of_address(const std::string& address);

// Compares the texts in a time that does not depend on the position of a difference.
bool equal_in_constant_time(std::string_view given, std::string_view secret);

}  // namespace forerun::server
