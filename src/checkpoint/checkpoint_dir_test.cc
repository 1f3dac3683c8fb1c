#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/testing.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

// A guard that sets environment variables and restores them at destruction.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~ScopedEnvironment() { set(old_); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  void set(const std::optional<std::string>& value) {
    if (value) {
      setenv(name_, value->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> old_;
};

fs::path make_snapshot(const fs::path& hub, const std::string& commit) {
  const fs::path repository = hub / "models--org--name";
  fs::create_directories(repository / "refs");
  fs::create_directories(repository / "snapshots" / commit);
  EXPECT_TRUE(write_text(repository / "refs/main", commit + "\n").ok());
  return repository / "snapshots" / commit;
}

TEST(ResolveCheckpointDir, APathThatExistsIsTaken) {
  TempDir temp;
  const auto found = resolve_checkpoint(temp.path().string());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, temp.path());
}

TEST(ResolveCheckpointDir, SearchesTheCachesInOrder) {
  TempDir hub_cache, hf_home, home;
  const ScopedEnvironment cache("HF_HUB_CACHE", hub_cache.path().string());
  const ScopedEnvironment base("HF_HOME", hf_home.path().string());
  const ScopedEnvironment user("HOME", home.path().string());
  const auto nowhere = resolve_checkpoint("org/name");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.status().code(), StatusCode::kNotFound);
  EXPECT_NE(nowhere.status().message().find(hub_cache.path().string()), std::string::npos);
  EXPECT_NE(nowhere.status().message().find("hf download org/name"), std::string::npos);

  const fs::path last = make_snapshot(home.path() / ".cache/huggingface/hub", "aaa");
  EXPECT_EQ(*resolve_checkpoint("org/name"), last);
  const fs::path middle = make_snapshot(hf_home.path() / "hub", "bbb");
  EXPECT_EQ(*resolve_checkpoint("org/name"), middle);
  const fs::path first = make_snapshot(hub_cache.path(), "ccc");
  EXPECT_EQ(*resolve_checkpoint("org/name"), first);

  fs::remove_all(first);
  const auto interrupted = resolve_checkpoint("org/name");
  ASSERT_FALSE(interrupted.ok());
  EXPECT_NE(interrupted.status().message().find("interrupted"), std::string::npos);
  ASSERT_TRUE(write_text(hub_cache.path() / "models--org--name/refs/main", "../../..").ok());
  EXPECT_EQ(resolve_checkpoint("org/name").status().code(), StatusCode::kCorrupt);
}

TEST(ResolveCheckpointDir, RevisionsOfARepository) {
  TempDir hub;
  const ScopedEnvironment cache("HF_HUB_CACHE", hub.path().string());
  const fs::path main = make_snapshot(hub.path(), "aaa");
  const fs::path repository = hub.path() / "models--org--name";
  const fs::path other = repository / "snapshots" / "bbb";
  fs::create_directories(other);
  fs::create_directories(repository / "refs/pr");
  ASSERT_TRUE(write_text(repository / "refs/v1.0", "bbb").ok());
  ASSERT_TRUE(write_text(repository / "refs/pr/1", "bbb").ok());
  ASSERT_TRUE(write_text(repository / "refs/lost", "ccc").ok());
  EXPECT_EQ(*resolve_checkpoint("org/name"), main);
  EXPECT_EQ(*resolve_checkpoint("org/name@main"), main);
  EXPECT_EQ(*resolve_checkpoint("org/name@aaa"), main);
  for (const char* revision : {"bbb", "v1.0", "pr/1"}) {
    EXPECT_EQ(*resolve_checkpoint(std::string("org/name@") + revision), other) << revision;
  }
  const auto said = [](const std::string& model) {
    return resolve_checkpoint(model).status().message();
  };
  EXPECT_NE(said("org/name@v2").find("no revision \"v2\""), std::string::npos);
  EXPECT_NE(said("org/name@lost").find("interrupted"), std::string::npos);
  EXPECT_NE(said("org/other@v2").find("hf download org/other --revision v2"), std::string::npos);
  EXPECT_NE(said("org/other:Q8_0").find("hf download org/other --include \"*Q8_0*\""),
            std::string::npos);
  EXPECT_NE(said("org/other:q8_0").find("--include \"*Q8_0*\" \"*q8_0*\""), std::string::npos);
}

TEST(ResolveCheckpointDir, FilesThatAreMissingAreNoRepositories) {
  EXPECT_NE(
      resolve_checkpoint("models/none.gguf").status().message().find("no such directory or file"),
      std::string::npos);
  const fs::path link = fs::path(testing::TempDir()) / "dangling.gguf";
  fs::remove(link);
  fs::create_symlink("nope", link);
  EXPECT_NE(resolve_checkpoint(link.string())
                .status()
                .message()
                .find("a link to \"nope\", which does not exist"),
            std::string::npos);
}

TEST(ResolveCheckpointDir, NamesThatAreNoRepository) {
  for (const char* name : {"", "a/b/c", "/gone", "../gone", "org/..", "a b", "org/", "org/name@",
                           "org/name@../..", "org/name@/etc", "org/name@a@b", "@main"}) {
    const auto found = resolve_checkpoint(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.status().code(), StatusCode::kNotFound);
  }
}

}  // namespace
}  // namespace forerun
