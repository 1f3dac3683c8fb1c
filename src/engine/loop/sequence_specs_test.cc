#include "engine/loop/sequence_specs.h"

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

SequenceSpec spec_of(SequenceSpecs& specs, Request request) {
  return specs.spec(make_request(std::move(request)).scheduled());
}

TEST(SequenceSpecs, OnlyEqualSaltsShare) {
  SequenceSpecs specs(true);
  const uint64_t first = spec_of(specs, request_of("first")).prefix_salt;
  EXPECT_NE(spec_of(specs, request_of("second")).prefix_salt, first);
  EXPECT_EQ(spec_of(specs, request_of("first")).prefix_salt, first);
  EXPECT_EQ(spec_of(specs, request_of("")).prefix_salt, 0u);
}

TEST(SequenceSpecs, NotWhereTheEngineOrTheRequestForbidsIt) {
  SequenceSpecs allowed(true), forbidden(false);
  EXPECT_TRUE(spec_of(allowed, request_of("")).share_prefix);
  EXPECT_FALSE(spec_of(allowed, request_of("", false)).share_prefix);
  EXPECT_FALSE(spec_of(forbidden, request_of("")).share_prefix);
}

// A prompt with scored tokens must be read. Afterwards the request shares its KV and requests no
// scores again.
TEST(SequenceSpecs, NotBeforeThePromptHasItsScores) {
  SequenceSpecs specs(true);
  SamplingParams sampling;
  sampling.prompt_logprobs = 2;
  ScheduledRequest running = make_request(request_of(""), sampling).scheduled(7);
  SequenceSpec spec = specs.spec(running);
  EXPECT_FALSE(spec.share_prefix);
  EXPECT_EQ(spec.sampling.prompt_logprobs, 2);
  EXPECT_EQ(spec.priority, 7);
  WorkResult result;
  result.scores.resize(1);
  running.request->note(result);
  spec = specs.spec(running);
  EXPECT_TRUE(spec.share_prefix);
  EXPECT_EQ(spec.sampling.prompt_logprobs, -1);
}

// A first request holds two full blocks of the text. A second one takes one more block if it shares
// them, else three, plus one for each request to grow.
TEST(SequenceSpecs, AClaimLeavesOutSharedBlocks) {
  SequenceSpecs specs(true);
  IdleExecutor executor;
  KvReservations reservations(&executor);
  KvReservations::Reservation reservation;
  reservations.reserve(specs.claim(*make_request(request_of("a")).request), reservation);
  const auto has_room = [&](int64_t free, const Request& request) {
    executor.target.total_blocks = 3 + free;  // the first request's three are reserved
    KvReservations::Claim claim = specs.claim(*make_request(request).request);
    return reservations.has_room(claim, 1);
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
