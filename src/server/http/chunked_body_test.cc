// Tests bodies in chunks: their data, their ends, and refusals, with any split of the bytes.
#include "server/http/chunked_body.h"

#include <gtest/gtest.h>

#include <string>

namespace forerun::server {
namespace {

using Verdict = ChunkedBody::Verdict;

struct Found {
  Verdict verdict = Verdict::kMore;
  std::string body;
  std::string rest;  // bytes that were not taken
};

constexpr uint64_t kMaxBytes = 1000;
constexpr size_t kMaxLineBytes = 50;

// Returns the result for bytes that arrive at once, which must equal the result byte by byte.
Found take(const std::string& bytes) {
  ChunkedBody whole(kMaxBytes, kMaxLineBytes), pieces(kMaxBytes, kMaxLineBytes);
  Found found;
  std::string_view left = bytes;
  found.verdict = whole.take(&left, &found.body);
  found.rest = left;
  std::string body;
  Verdict verdict = Verdict::kMore;
  size_t taken = 0;
  for (; taken < bytes.size() && verdict == Verdict::kMore; ++taken) {
    std::string_view byte = std::string_view(bytes).substr(taken, 1);
    verdict = pieces.take(&byte, &body);
    EXPECT_TRUE(byte.empty());
  }
  EXPECT_EQ(verdict, found.verdict) << bytes;
  EXPECT_EQ(pieces.fault(), whole.fault()) << bytes;
  EXPECT_EQ(bytes.substr(taken), found.rest) << bytes;
  EXPECT_EQ(body, found.body) << bytes;
  return found;
}

void expect_whole(const std::string& bytes, const std::string& body) {
  const Found found = take(bytes + "GET /next");
  EXPECT_EQ(found.verdict, Verdict::kWhole) << bytes;
  EXPECT_EQ(found.body, body) << bytes;
  EXPECT_EQ(found.rest, "GET /next") << bytes;
}

TEST(ChunkedBody, ReadsChunksUpToTheirEnd) {
  expect_whole("0\r\n\r\n", "");
  expect_whole("5\r\nabcde\r\n0\r\n\r\n", "abcde");
  expect_whole("005\r\nab\r\ne\r\nA\r\n0123456789\r\n000\r\n\r\n", "ab\r\ne0123456789");
  expect_whole("1;name=value;other=\"a b\"\r\na\r\n1 \t;x\r\nb\r\n0;end\r\n\r\n", "ab");
}

TEST(ChunkedBody, DropsTrailers) {
  expect_whole("1\r\na\r\n0\r\nX: y\r\nHost:evil\t\xff\r\n\r\n", "a");
  EXPECT_EQ(take("1\r\na\r\n0\r\nX: " + std::string(70'000, 'y')).verdict, Verdict::kTooLong);
  EXPECT_EQ(take("0\r\n" + std::string(70'000, 'x')).verdict, Verdict::kTooLong);
  std::string many = "0\r\n";
  for (int idx = 0; idx < 20; ++idx) many += "a: b\r\n";
  EXPECT_EQ(take(many + "\r\n").verdict, Verdict::kTooLong);
}

TEST(ChunkedBody, LimitsLinesAndBodies) {
  EXPECT_EQ(take("1;" + std::string(100, 'x')).verdict, Verdict::kTooLong);
  EXPECT_EQ(take(std::string(100, '0')).verdict, Verdict::kTooLong);
  EXPECT_EQ(take("3e9\r\n").verdict, Verdict::kTooLarge);
  EXPECT_EQ(take("ffffffffffffffffffff\r\n").verdict, Verdict::kTooLarge);
  const std::string most = "3e8\r\n" + std::string(1000, 'x') + "\r\n";
  EXPECT_EQ(take(most + "1\r\n").verdict, Verdict::kTooLarge);
  expect_whole(most + "0\r\n\r\n", std::string(1000, 'x'));
}

TEST(ChunkedBody, RefusesWhatIsNoLine) {
  for (const std::string bytes : {"\r\n",
                                  "x\r\n",
                                  ";a\r\n",
                                  " 1\r\n",
                                  "-1\r\n",
                                  "+1\r\n",
                                  "0x1\r\n",
                                  "1 \r\n",
                                  "1 2\r\n",
                                  "1\na",
                                  "1\rx",
                                  "1;a=\"\n\"\r\n",
                                  "1;a\x01\r\n",
                                  "1;a\rb",
                                  "1\r\nab",
                                  "1\r\na\n",
                                  "1\r\na\rb",
                                  "0\r\n\n",
                                  "0\r\n\rx",
                                  "0\n",
                                  "0\r\n: y\r\n",
                                  "0\r\nX y\r\n",
                                  "0\r\nX\r\n",
                                  "0\r\nX: y\n",
                                  "0\r\nX: y\r\n z\r\n",
                                  "0\r\nX: \x01\r\n",
                                  "0\r\nX: y\rz"}) {
    EXPECT_EQ(take(bytes).verdict, Verdict::kBad) << bytes;
  }
  std::string zero = "1;a= \r\n";
  zero[4] = '\0';
  EXPECT_EQ(take(zero).verdict, Verdict::kBad);
}

TEST(ChunkedBody, AsksForMore) {
  const std::string bytes = "5;x\r\nabcde\r\n0\r\nX: y\r\n\r\n";
  for (size_t count = 0; count < bytes.size(); ++count) {
    EXPECT_EQ(take(bytes.substr(0, count)).verdict, Verdict::kMore) << count;
  }
}

}  // namespace
}  // namespace forerun::server
