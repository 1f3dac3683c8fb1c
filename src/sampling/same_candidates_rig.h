// Compares lists of candidates bit for bit, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sampling/sampler.h"

namespace forerun {

inline void expect_same(const std::vector<Candidate>& found, const std::vector<Candidate>& expected,
                        const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t index = 0; index < found.size(); ++index) {
    EXPECT_EQ(found[index].token, expected[index].token) << what;
    EXPECT_EQ(found[index].logprob, expected[index].logprob) << what;
  }
}

}  // namespace forerun
