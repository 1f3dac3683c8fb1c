#include "hosts/launch_frames.h"

#include <gtest/gtest.h>

#include <vector>

#include "hosts/step_frames.h"
#include "wire/testing.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {
namespace {

using testing::ExtremeFiller;
using testing::printed;

template <class T>
void expect_back(ExtremeFiller& filler) {
  T sent, back;
  visit_fields(filler, sent);
  const Bytes bytes = to_bytes(sent);
  const Status status = from_bytes("frame", bytes, back);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(printed(back), printed(sent));
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(from_bytes("frame", std::span(bytes).first(length), back).ok()) << length;
  }
}

TEST(LaunchFrames, ComeBackAsTheyWere) {
  for (uint32_t seed = 0; seed < ExtremeFiller::kSeeds; ++seed) {
    ExtremeFiller filler(seed);
    expect_back<Greeting>(filler);
    expect_back<GreetingAnswer>(filler);
    expect_back<Outcome>(filler);
    expect_back<Loss>(filler);
    expect_back<IssuedRow>(filler);
    EXPECT_EQ(filler.failure(), "");
  }
}

}  // namespace
}  // namespace forerun
