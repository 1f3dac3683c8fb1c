#include "drafts/make_draft_source.h"

#include <gtest/gtest.h>

#include <vector>

namespace forerun {
namespace {

TEST(MakeDraftSource, AcceptsEveryUnion) {
  for (const char* spec : {"model", "ngram", "suffix", "model+suffix", "suffix+model",
                           "ngram+suffix", "model+ngram+suffix"}) {
    auto made = make_draft_source(spec);
    ASSERT_TRUE(made.ok()) << spec << ": " << made.status().message();
    const std::string text = spec;
    EXPECT_EQ(made->model, text.find("model") != std::string::npos) << spec;
    EXPECT_EQ(made->source != nullptr, text != "model") << spec;
    if (!made->source) continue;
    const std::vector<TokenId> seen = {1, 2, 3, 1, 2};
    made->source->observe(seen);
    std::vector<Candidate> out;
    made->source->propose({}, 4, out);
    ASSERT_EQ(out.size(), 1u) << spec;
    EXPECT_EQ(out[0].token, 3);
  }
}

TEST(MakeDraftSource, RefusesWhatItDoesNotKnow) {
  for (const char* spec : {"", "eagle", "model+", "+model", "model,suffix", "model+model"}) {
    const auto made = make_draft_source(spec);
    ASSERT_FALSE(made.ok()) << spec;
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(made.status().message().find("draft source"), std::string::npos);
  }
}

}  // namespace
}  // namespace forerun
