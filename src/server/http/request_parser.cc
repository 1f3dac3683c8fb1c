#include "server/http/request_parser.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <utility>

namespace forerun::server {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

// Returns whether an id may be used in headers and logs.
bool is_fit_id(std::string_view id) {
  if (id.empty() || id.size() > 128) return false;
  for (const char letter : id) {
    const bool fit = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' ||
                     letter == '_' || letter == '.' || letter == ':';
    if (!fit) return false;
  }
  return true;
}

std::string new_id() {
  static std::atomic<uint64_t> count{0};
  static const auto start =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  char text[48];
  std::snprintf(text, sizeof(text), "req-%llx-%llx", static_cast<unsigned long long>(start / 1000),
                static_cast<unsigned long long>(++count));
  return text;
}

// Describes the error in a head that the HTTP parser refuses, except for the length of its body.
std::string describe(const error_code& error) {
  if (error == http::error::bad_content_length) {
    return "Content-Length: malformed or repeated; accepted: one decimal number, without "
           "Transfer-Encoding";
  }
  if (error == http::error::bad_transfer_encoding) {
    return "Transfer-Encoding: malformed or repeated; accepted: 'chunked' once, without "
           "Content-Length";
  }
  return "not an HTTP request: " + error.message();
}

}  // namespace

void RequestParser::begin() {
  scanner_ = HeadScanner(static_cast<size_t>(options_.max_header_bytes));
  request_ = {};
  keeps_alive_ = true;
  body_memory_ = nullptr;
}

RequestParser::Verdict RequestParser::refuse(int status, std::string message) {
  fault_ = {status, std::move(message)};
  return Verdict::kRefused;
}

RequestParser::Verdict RequestParser::refuse_too_large() {
  return refuse(413, "body: too large; accepted: up to " + std::to_string(options_.max_body_bytes) +
                         " bytes");
}

RequestParser::Verdict RequestParser::take_head(std::string_view& bytes) {
  switch (scanner_.scan(bytes)) {
    case HeadScanner::Verdict::kBad:
      return refuse(400, "not an HTTP request: " + std::string(scanner_.fault()));
    case HeadScanner::Verdict::kTooLong:
      return refuse(431, "headers: too long; accepted: up to " +
                             std::to_string(options_.max_header_bytes) + " bytes");
    case HeadScanner::Verdict::kMore:
      if (scanner_.has_begun() || bytes.empty()) return Verdict::kMore;
      bytes = {};  // only empty lines, which some clients add
      return Verdict::kBlank;
    case HeadScanner::Verdict::kWhole:
      break;
  }
  bytes.remove_prefix(scanner_.blank_bytes());
  const std::string_view head = bytes.substr(0, scanner_.head_end() - scanner_.blank_bytes());
  const std::string_view line = head.substr(0, head.find('\r'));
  http::request_parser<http::string_body> parser;
  // The scanner has already limited the head's bytes.
  parser.header_limit(static_cast<std::uint32_t>(options_.max_header_bytes + 1));
  parser.body_limit(static_cast<std::uint64_t>(options_.max_body_bytes));
  error_code error;
  parser.put(boost::asio::const_buffer(head.data(), head.size()), error);
  if (error == http::error::bad_version && ends_in_http_version(line)) {
    return refuse(505, "request line: found '" + std::string(line.substr(line.size() - 8)) +
                           "'; accepted: HTTP/1.1 and HTTP/1.0");
  }
  bytes.remove_prefix(head.size());
  if (error && error != http::error::body_limit) return refuse(400, describe(error));
  const auto& message = parser.get();
  request_.version = message.version();
  keeps_alive_ = message.keep_alive();
  request_.method = std::string(message.method_string());
  for (const auto& field : message) {
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  const std::string_view given = request_.header("X-Request-Id");
  request_.id = is_fit_id(given) ? std::string(given) : new_id();
  if (error) return refuse_too_large();
  if (std::optional<HeadFault> fault = read_head(std::string(message.target()), request_)) {
    return refuse(fault->status, std::move(fault->message));
  }
  chunks_.reset();
  if (parser.chunked()) {
    chunks_.emplace(static_cast<uint64_t>(options_.max_body_bytes),
                    static_cast<size_t>(options_.max_header_bytes));
  }
  const auto announced = parser.content_length();
  body_left_ = announced ? *announced : 0;
  return Verdict::kWhole;
}

RequestParser::Verdict RequestParser::begin_body() {
  if (!chunks_ && body_left_ == 0) return Verdict::kWhole;
  body_memory_ = std::make_shared<BodyMemory>(bodies_);
  if (!bodies_->has_room(static_cast<int64_t>(body_left_))) return refuse_body();
  return Verdict::kMore;
}

RequestParser::Verdict RequestParser::take_body(std::string_view& bytes) {
  Verdict verdict = Verdict::kMore;
  if (chunks_) {
    verdict = take_chunks(bytes);
    if (verdict == Verdict::kRefused) return verdict;
  } else {
    const auto count = static_cast<size_t>(std::min<uint64_t>(body_left_, bytes.size()));
    request_.body.append(bytes, 0, count);
    bytes.remove_prefix(count);
    body_left_ -= count;
    if (body_left_ == 0) verdict = Verdict::kWhole;
  }
  if (!body_memory_->grow_to(static_cast<int64_t>(request_.body.size()))) return refuse_body();
  return verdict;
}

RequestParser::Verdict RequestParser::take_chunks(std::string_view& bytes) {
  switch (chunks_->take(&bytes, &request_.body)) {
    case ChunkedBody::Verdict::kWhole:
      return Verdict::kWhole;
    case ChunkedBody::Verdict::kMore:
      break;
    case ChunkedBody::Verdict::kBad:
      return refuse(400, "not an HTTP request: " + std::string(chunks_->fault()));
    case ChunkedBody::Verdict::kTooLong:
      return refuse(431,
                    "body: a chunk's extensions or the trailers are too long; accepted: up to " +
                        std::to_string(options_.max_header_bytes) + " bytes");
    case ChunkedBody::Verdict::kTooLarge:
      return refuse_too_large();
  }
  return Verdict::kMore;
}

RequestParser::Verdict RequestParser::refuse_body() {
  request_.body = {};
  body_memory_ = nullptr;
  return refuse(503, "body: the memory for request bodies is full; send this request again later");
}

bool RequestParser::expects_continue() const {
  if (request_.version < 11) return false;
  const std::vector<std::string> members = list_of(request_.headers, "Expect");
  return std::any_of(members.begin(), members.end(),
                     [](const std::string& member) { return !member.empty(); });
}

HttpRequest RequestParser::take_request() {
  std::string body = std::exchange(request_.body, {});
  HttpRequest whole = request_;
  whole.body = std::move(body);
  whole.body_memory = std::exchange(body_memory_, nullptr);
  return whole;
}

}  // namespace forerun::server
