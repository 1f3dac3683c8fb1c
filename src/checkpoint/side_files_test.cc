#include "checkpoint/side_files.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "checkpoint/testing.h"

namespace forerun {
namespace {

class SideFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(write_text(folder_.path() / name, text).ok());
  }
  std::map<std::string, std::string> facts() const {
    const auto pairs = side_file_facts(folder_.path());
    return {pairs.begin(), pairs.end()};
  }
  TempDir folder_;
};

TEST_F(SideFiles, TellFieldsByFileAndName) {
  write("config.json", R"({"rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 4},
                           "architectures": ["X"], "empty": {}, "none": null})");
  write("generation_config.json", R"({"eos_token_id": [1, 2]})");
  const std::map<std::string, std::string> expected = {
      {"config.json, architectures", R"(["X"])"},
      {"config.json, empty", "{}"},
      {"config.json, none", "null"},
      {"config.json, rope_scaling.factor", "4"},
      {"config.json, rope_scaling.type", R"("yarn")"},
      {"config.json, rope_theta", "10000.0"},
      {"generation_config.json, eos_token_id", "[1,2]"}};
  EXPECT_EQ(facts(), expected);
}

TEST_F(SideFiles, DoNotTellSpacesAndOrder) {
  write("config.json", R"({"a": 1, "b": {"c": [1, 2]}})");
  const auto facts_before = facts();
  write("config.json", "{\n  \"b\": {\"c\":[1,2]},\n  \"a\":1}\n");
  EXPECT_EQ(facts(), facts_before);
}

// Two long values must have different digests, wherever they differ.
TEST_F(SideFiles, TellLongValuesByDigest) {
  std::string members;
  for (int idx = 0; idx < 100; ++idx) {
    members += (idx > 0 ? ",\"" : "\"") + std::to_string(idx) + "\":0";
  }
  write("tokenizer_config.json",
        R"({"chat_template": ")" + std::string(3000, 'x') + R"(", "many": {)" + members + "}}");
  write("tokenizer.json", R"({"model": {}})");
  const auto facts_before = facts();
  ASSERT_EQ(facts_before.size(), 3U);
  for (const auto& [name, value] : facts_before)
    EXPECT_NE(value.find(" bytes)"), std::string::npos) << name;
  members.back() = '1';
  write("tokenizer_config.json", R"({"chat_template": ")" + std::string(2999, 'x') + "y" +
                                     R"(", "many": {)" + members + "}}");
  write("tokenizer.json", R"({"model": []})");
  for (const auto& [name, value] : facts()) EXPECT_NE(facts_before.at(name), value) << name;
}

TEST_F(SideFiles, TellWhatIsNoJsonByItsBytes) {
  EXPECT_TRUE(facts().empty());
  for (const char* const text : {"", "{", "[1]", "\xff"}) {
    write("config.json", text);
    ASSERT_EQ(facts().size(), 1U) << text;
    EXPECT_EQ(facts().begin()->first, "config.json");
  }
}

}  // namespace
}  // namespace forerun
