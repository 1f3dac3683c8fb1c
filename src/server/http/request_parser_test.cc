#include "server/http/request_parser.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

namespace forerun::server {
namespace {

using ParserVerdict = RequestParser::Verdict;

struct Parsed {
  ParserVerdict verdict = ParserVerdict::kMore;
  HttpRequest request;
  HeadFault fault;
  std::string left;  // bytes after the request
};

// Gives the parser `step` more bytes at a time.
Parsed parse_in_steps(const std::string& bytes, size_t step, const HttpOptions& options) {
  RequestParser parser(options, std::make_shared<BodyBudget>(options.body_memory_bytes));
  Parsed parsed;
  std::string buffer;
  bool in_body = false;
  for (size_t at = 0; at < bytes.size() && parsed.verdict == ParserVerdict::kMore; at += step) {
    buffer += bytes.substr(at, step);
    std::string_view left = buffer;
    if (!in_body) {
      parsed.verdict = parser.take_head(left);
      in_body = parsed.verdict == ParserVerdict::kWhole;
      if (in_body) parsed.verdict = parser.begin_body();
    }
    if (in_body && parsed.verdict == ParserVerdict::kMore) parsed.verdict = parser.take_body(left);
    buffer = std::string(left);
    if (at + step >= bytes.size()) break;
    if (parsed.verdict == ParserVerdict::kWhole) buffer += bytes.substr(at + step);
  }
  parsed.fault = parser.fault();
  parsed.left = buffer;
  if (parsed.verdict == ParserVerdict::kWhole) parsed.request = parser.take_request();
  return parsed;
}

// Returns the result of parsing the bytes, which must not depend on how they were split.
Parsed parse(const std::string& bytes, const HttpOptions& options = {}) {
  Parsed whole = parse_in_steps(bytes, bytes.size(), options);
  const Parsed pieces = parse_in_steps(bytes, 1, options);
  EXPECT_EQ(pieces.verdict, whole.verdict) << bytes;
  EXPECT_EQ(pieces.fault.message, whole.fault.message) << bytes;
  EXPECT_EQ(pieces.request.body, whole.request.body) << bytes;
  if (whole.verdict == ParserVerdict::kWhole) {
    EXPECT_EQ(pieces.left, whole.left) << bytes;
  }
  return whole;
}

TEST(RequestParser, TakesOneRequestAndNothingBehindIt) {
  const Parsed plain =
      parse("POST /a?b HTTP/1.1\r\nHost: c\r\nContent-Length: 3\r\nX-Request-Id: me\r\n\r\nabcGET");
  ASSERT_EQ(plain.verdict, ParserVerdict::kWhole);
  EXPECT_EQ(plain.request.method, "POST");
  EXPECT_EQ(plain.request.path, "/a");
  EXPECT_EQ(plain.request.id, "me");
  EXPECT_EQ(plain.request.body, "abc");
  EXPECT_NE(plain.request.body_memory, nullptr);
  EXPECT_EQ(plain.left, "GET");

  const Parsed chunked = parse(
      "POST / HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\nGET");
  ASSERT_EQ(chunked.verdict, ParserVerdict::kWhole);
  EXPECT_EQ(chunked.request.body, "ab");
  EXPECT_EQ(chunked.left, "GET");

  const Parsed bare = parse("GET / HTTP/1.1\r\nHost: c\r\n\r\nGET");
  ASSERT_EQ(bare.verdict, ParserVerdict::kWhole);
  EXPECT_EQ(bare.request.body_memory, nullptr);
  EXPECT_EQ(bare.left, "GET");
}

TEST(RequestParser, RefusesWithAStatus) {
  HttpOptions options;
  options.max_header_bytes = 100;
  options.max_body_bytes = 10;
  const std::string post = "POST / HTTP/1.1\r\nHost: c\r\n";
  const auto status = [&](const std::string& bytes) {
    const Parsed parsed = parse(bytes, options);
    EXPECT_EQ(parsed.verdict, ParserVerdict::kRefused) << bytes;
    return parsed.fault.status;
  };
  EXPECT_EQ(status("GET /\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/2.0\r\nHost: c\r\n\r\n"), 505);
  EXPECT_EQ(status(post + std::string(100, 'a')), 431);
  EXPECT_EQ(status(post + "Content-Length: 11\r\n\r\n"), 413);
  EXPECT_EQ(status(post + "Content-Length: a\r\n\r\n"), 400);
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\nb\r\n"), 413);
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\nz\r\n"), 400);
  options.body_memory_bytes = 4;
  EXPECT_EQ(status(post + "Content-Length: 5\r\n\r\nabcde"), 503);
}

TEST(RequestParser, TakesEmptyLinesInFront) {
  const HttpOptions options;
  RequestParser parser(options, std::make_shared<BodyBudget>(0));
  std::string_view bytes = "\r\n\r\n";
  EXPECT_EQ(parser.take_head(bytes), ParserVerdict::kBlank);
  EXPECT_TRUE(bytes.empty());
  EXPECT_FALSE(parser.has_begun());
}

}  // namespace
}  // namespace forerun::server
