// Tests heads of requests: their ends, and the rules of RFC 9110 and 9112.
#include "server/http/request_head.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/http/head_scanner.h"

namespace forerun::server {
namespace {

using HeadVerdict = HeadScanner::Verdict;

// Returns the verdict on a head that arrives as a whole, which must equal the verdict byte by byte.
HeadVerdict scan(const std::string& bytes, size_t max_bytes = 200) {
  HeadScanner whole(max_bytes);
  const HeadVerdict verdict = whole.scan(bytes);
  HeadScanner pieces(max_bytes);
  HeadVerdict last = HeadVerdict::kMore;
  for (size_t end = 0; end <= bytes.size() && last == HeadVerdict::kMore; ++end) {
    last = pieces.scan(std::string_view(bytes).substr(0, end));
  }
  EXPECT_EQ(last, verdict) << bytes;
  EXPECT_EQ(pieces.fault(), whole.fault()) << bytes;
  return verdict;
}

TEST(HeadScanner, FindsTheEndOfAHeadAndNothingBehindIt) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\nX:\t\xff\r\n\r\nGET /next";
  HeadScanner scanner(200);
  EXPECT_EQ(scanner.scan(bytes), HeadVerdict::kWhole);
  EXPECT_EQ(scanner.head_end(), bytes.find("GET /next"));
  EXPECT_EQ(scanner.blank_bytes(), 0u);
  EXPECT_EQ(scan("GET / HTTP/1.1\r\n\r\n"), HeadVerdict::kWhole);
}

TEST(HeadScanner, PassesOverEmptyLinesInFront) {
  HeadScanner scanner(200);
  EXPECT_EQ(scanner.scan("\r\n\r"), HeadVerdict::kMore);
  EXPECT_EQ(scanner.scan("\r\n\r\n"), HeadVerdict::kMore);
  EXPECT_FALSE(scanner.has_begun());
  EXPECT_EQ(scanner.scan("\r\n\r\nG / H\r\n\r\n"), HeadVerdict::kWhole);
  EXPECT_TRUE(scanner.has_begun());
  EXPECT_EQ(scanner.blank_bytes(), 4u);
}

TEST(HeadScanner, RefusesWhatIsNoLine) {
  for (const char* const bytes :
       {"\n", "\nGET / HTTP/1.1\r\n\r\n", "\rGET", " GET / HTTP/1.1\r\n", "GET / HTTP/1.1\n",
        "GET / HTTP/1.1\rHost: a\r\n", "GET /\t HTTP/1.1\r\n", "GET /\xc3\xa4 HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\n folded: a\r\n", "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\nA : b\r\n", "GET / HTTP/1.1\r\n: b\r\n", "GET / HTTP/1.1\r\nA b\r\n",
        "GET / HTTP/1.1\r\nA\r\n", "GET / HTTP/1.1\r\nA: b\nC: d\r\n",
        "GET / HTTP/1.1\r\nA: b\rc\r\n", "GET / HTTP/1.1\r\nA: b\x01\r\n", "\x16\x03\x01"}) {
    EXPECT_EQ(scan(bytes), HeadVerdict::kBad) << bytes;
  }
  EXPECT_EQ(scan(std::string("GET / HTTP/1.1\r\nA: b\0c", 22)), HeadVerdict::kBad);
}

TEST(HeadScanner, CountsEmptyLinesAndTheHead) {
  const std::string head = "GET / HTTP/1.1\r\n\r\n";
  EXPECT_EQ(scan(head, head.size()), HeadVerdict::kWhole);
  EXPECT_EQ(scan(head, head.size() - 1), HeadVerdict::kTooLong);
  EXPECT_EQ(scan("\r\n" + head, head.size()), HeadVerdict::kTooLong);
}

struct Case {
  std::string method = "POST";
  std::string target = "/v1/completions";
  HttpHeaders headers = {};
  unsigned version = 11;
  bool adds_host = true;
};

HttpRequest request_of(const Case& asked) {
  HttpRequest head;
  head.method = asked.method;
  head.version = asked.version;
  head.headers = asked.headers;
  if (asked.adds_host && head.count("Host") == 0) head.headers.emplace_back("Host", "localhost");
  return head;
}

// Returns the status of the refusal; 0: the head is accepted.
int status_of(const Case& asked) {
  HttpRequest head = request_of(asked);
  const auto fault = read_head(asked.target, head);
  return fault ? fault->status : 0;
}

TEST(RequestHead, ABodyEndsInOneWay) {
  const auto with = [](HttpHeaders headers, unsigned version = 11) {
    return status_of({.headers = std::move(headers), .version = version});
  };
  EXPECT_EQ(with({{"Transfer-Encoding", "chunked"}}), 0);
  EXPECT_EQ(with({{"transfer-encoding", "Chunked"}}), 0);
  for (const char* const coding :
       {"identity", "gzip", "xchunked", "chunked, identity", "chunked, chunked", "chunked,", "",
        ",", "chunked;q=1", "\"chunked\"", "chunked gzip"}) {
    EXPECT_EQ(with({{"Transfer-Encoding", coding}}), 400) << coding;
  }
  EXPECT_EQ(with({{"Transfer-Encoding", "gzip, chunked"}}), 501);
  EXPECT_EQ(with({{"Transfer-Encoding", "gzip"}, {"Transfer-Encoding", "chunked"}}), 501);
  EXPECT_EQ(with({{"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "identity"}}), 400);
  EXPECT_EQ(with({{"Transfer-Encoding", "chunked"}}, 10), 400);
  EXPECT_EQ(with({{"Transfer-Encoding", "chunked"}, {"Content-Length", "3"}}), 400);
  EXPECT_EQ(with({{"Transfer-Encoding", ""}, {"Content-Length", "3"}}), 400);
  EXPECT_EQ(with({{"Content-Length", "3"}}), 0);
  EXPECT_EQ(with({{"Content-Length", "3"}, {"Content-Length", "3"}}), 400);
  EXPECT_EQ(with({{"Content-Length", "3"}, {"Content-Length", "4"}}), 400);
  for (const char* const length : {"", "3, 3", "+3", "-3", "0x3", "3 3", "3.0", "three"}) {
    EXPECT_EQ(with({{"Content-Length", length}}), 400) << length;
  }
}

TEST(RequestHead, OneHost) {
  EXPECT_EQ(status_of({.adds_host = false}), 400);
  EXPECT_EQ(status_of({.version = 10, .adds_host = false}), 0);
  EXPECT_EQ(status_of({.headers = {{"Host", "a"}, {"host", "a"}}}), 400);
  EXPECT_EQ(status_of({.headers = {{"Host", "a"}, {"Host", "b"}}, .version = 10}), 400);
  for (const char* const host : {"", "a", "a:80", "a:", "[::1]", "[::1]:8080", "127.0.0.1:1"}) {
    EXPECT_EQ(status_of({.headers = {{"Host", host}}}), 0) << host;
  }
  for (const char* const host :
       {":80", "a b", "a/b", "user@a", "a:80x", "[::1", "[]", "a,b c", "a?", "a#", "http://a"}) {
    EXPECT_EQ(status_of({.headers = {{"Host", host}}}), 400) << host;
  }
}

TEST(RequestHead, WhatIsReadOnceIsThereOnce) {
  for (const char* const name : {"Authorization", "Content-Type", "Origin"}) {
    EXPECT_EQ(status_of({.headers = {{name, "a"}, {name, "a"}}}), 400) << name;
  }
  EXPECT_EQ(status_of({.headers = {{"Accept", "a"}, {"Accept", "b"}}}), 0);
}

TEST(RequestHead, TargetsOfEveryForm) {
  struct Target {
    const char* target;
    const char* path;
    const char* query;
    const char* host;
  };
  for (const Target& form :
       std::vector<Target>{{"/", "/", "", "localhost"},
                           {"/a?b=%20?c", "/a", "b=%20?c", "localhost"},
                           {"/%76%31/m%2Fo", "/v1/m/o", "", "localhost"},
                           {"/a%3Fb%25", "/a?b%", "", "localhost"},
                           {"http://other.example/a?b", "/a", "b", "other.example"},
                           {"HTTPS://[::1]:8080", "/", "", "[::1]:8080"},
                           {"http://other.example?b", "/", "b", "other.example"}}) {
    Case asked{.method = "GET", .target = form.target};
    HttpRequest head = request_of(asked);
    const auto fault = read_head(form.target, head);
    ASSERT_FALSE(fault.has_value()) << fault->message;
    EXPECT_EQ(head.path, form.path);
    EXPECT_EQ(head.query, form.query);
    EXPECT_EQ(head.header("Host"), form.host);
    EXPECT_EQ(head.count("Host"), 1u);
  }
  for (const char* const target :
       {"*", "a", "", "localhost:80", "ftp://a/", "http:///a", "http://", "http://user@a/", "/a#b",
        "/%", "/%4", "/%zz", "/%00", "/%0a", "/a%7f", "//?#"}) {
    EXPECT_EQ(status_of({.method = "GET", .target = target}), 400) << target;
  }
  for (const char* const target : {"*", "http://localhost"}) {
    HttpRequest head = request_of({.method = "OPTIONS"});
    ASSERT_FALSE(read_head(target, head).has_value());
    EXPECT_EQ(head.path, "*");
  }
}

TEST(RequestHead, MethodsAndExpectations) {
  EXPECT_EQ(status_of({.method = "DELETE"}), 0);  // the routes answer 405
  EXPECT_EQ(status_of({.method = "CONNECT", .target = "localhost:80"}), 501);
  EXPECT_EQ(status_of({.method = "get"}), 501);
  EXPECT_EQ(status_of({.method = "BREW"}), 501);
  EXPECT_EQ(status_of({.headers = {{"Expect", "100-Continue"}}}), 0);
  EXPECT_EQ(status_of({.headers = {{"Expect", "200-ok"}}}), 417);
  EXPECT_EQ(status_of({.headers = {{"Expect", "100-continue, more"}}}), 417);
  EXPECT_EQ(status_of({.headers = {{"Expect", "more"}}, .version = 10}), 0);
}

TEST(RequestHead, Versions) {
  EXPECT_TRUE(ends_in_http_version("GET / HTTP/2.0"));
  EXPECT_TRUE(ends_in_http_version("GET / HTTP/1.2"));
  for (const char* const line :
       {"GET / HTTP/2", "GET / http/2.0", "GET /HTTP/2.0", "HTTP/2.0", "", "GET / HTTP/a.b"}) {
    EXPECT_FALSE(ends_in_http_version(line)) << line;
  }
}

}  // namespace
}  // namespace forerun::server
