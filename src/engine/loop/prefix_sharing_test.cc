#include "engine/loop/prefix_sharing.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/loop/scheduled_request_rig.h"
#include "step/step.h"

namespace forerun::testing {
namespace {

Request request_of(const std::string& salt, bool share_prefix = true) {
  Request request;
  request.prompt_tokens.assign(2 * kKvBlockTokens + 1, 1);
  request.cache_salt = salt;
  request.share_prefix = share_prefix;
  return request;
}

SequenceSpec sequence_of(PrefixSharing& prefixes, Request request) {
  return prefixes.sequence(make_request(std::move(request)).scheduled());
}

TEST(PrefixSharing, OnlyEqualSaltsShare) {
  PrefixSharing prefixes(true);
  const uint64_t first = sequence_of(prefixes, request_of("first")).prefix_salt;
  EXPECT_NE(sequence_of(prefixes, request_of("second")).prefix_salt, first);
  EXPECT_EQ(sequence_of(prefixes, request_of("first")).prefix_salt, first);
  EXPECT_EQ(sequence_of(prefixes, request_of("")).prefix_salt, 0u);
}

TEST(PrefixSharing, NotWhereTheEngineOrTheRequestForbidsIt) {
  PrefixSharing allowed(true), forbidden(false);
  EXPECT_TRUE(sequence_of(allowed, request_of("")).share_prefix);
  EXPECT_FALSE(sequence_of(allowed, request_of("", false)).share_prefix);
  EXPECT_FALSE(sequence_of(forbidden, request_of("")).share_prefix);
}

// A prompt whose tokens are to be scored must be read. Once it has been, the request shares, and
// asks for no scores again.
TEST(PrefixSharing, NotBeforeThePromptHasItsScores) {
  PrefixSharing prefixes(true);
  SamplingParams sampling;
  sampling.prompt_logprobs = 2;
  ScheduledRequest running = make_request(request_of(""), sampling).scheduled(7);
  SequenceSpec spec = prefixes.sequence(running);
  EXPECT_FALSE(spec.share_prefix);
  EXPECT_EQ(spec.sampling.prompt_logprobs, 2);
  EXPECT_EQ(spec.priority, 7);
  WorkResult result;
  result.scores.resize(1);
  running.request->note(result);
  spec = prefixes.sequence(running);
  EXPECT_TRUE(spec.share_prefix);
  EXPECT_EQ(spec.sampling.prompt_logprobs, -1);
}

// A first request holds two full blocks of the text. A second one takes one more block where it
// shares them, else three, beside one to grow for it and one for the first.
TEST(PrefixSharing, AClaimLeavesOutSharedBlocks) {
  PrefixSharing prefixes(true);
  IdleExecutor executor;
  Admission admission(&executor);
  Admission::Reservation reservation;
  admission.admit(prefixes.claim(*make_request(request_of("a")).request), reservation);
  const auto has_room = [&](int64_t free, const Request& request) {
    executor.target.total_blocks = 3 + free;  // the first one's three are reserved
    Admission::Claim claim = prefixes.claim(*make_request(request).request);
    return admission.has_room(claim, 1);
  };
  EXPECT_TRUE(has_room(3, request_of("a")));
  EXPECT_FALSE(has_room(2, request_of("a")));
  for (const Request& apart : {request_of("b"), request_of("a", false)}) {
    EXPECT_TRUE(has_room(5, apart));
    EXPECT_FALSE(has_room(4, apart));
  }
}

}  // namespace
}  // namespace forerun::testing
