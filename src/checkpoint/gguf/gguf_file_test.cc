#include "checkpoint/gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "checkpoint/gguf/gguf_rig.h"
#include "checkpoint/gguf/gguf_split.h"
#include "checkpoint/testing.h"

namespace forerun {
namespace {

constexpr uint32_t kI8 = 24;

std::string text_of(const GgufFileTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

class GgufFileTest : public testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return dir_.path() / name; }
  std::filesystem::path part(uint32_t number, uint32_t num_parts = 3) const {
    return path(gguf_part_name({.name = "toy", .part = number, .num_parts = num_parts}));
  }
  // Writes three parts with one tensor each; only the first one has general metadata.
  void write_parts() const {
    first().write(part(1));
    second().write(part(2));
    GgufRig().split(2, 3, 3).tensor("c", kI8, {2}, "cc").write(part(3));
  }
  static GgufRig first() {
    GgufRig rig;
    rig.value("general.architecture", "llama").split(0, 3, 3).tensor("b", kI8, {2}, "bb");
    return rig;
  }
  static GgufRig second() {
    GgufRig rig;
    rig.split(1, 3, 3).tensor("a", kI8, {2}, "aa");
    return rig;
  }
  static void expect_refused(const std::filesystem::path& file, StatusCode code,
                             const std::string& message) {
    const auto opened = GgufFile::open(file);
    ASSERT_FALSE(opened.ok()) << message;
    EXPECT_EQ(opened.status().code(), code);
    EXPECT_EQ(opened.status().message(), message);
  }

  TempDir dir_;
};

TEST_F(GgufFileTest, OpensOneFile) {
  GgufRig rig;
  rig.value("general.architecture", "llama")
      .tensor("b", kI8, {2, 1}, "bb")
      .tensor("unknown", 99, {1}, "?")
      .tensor("a", kI8, {3}, "aaa");
  rig.write(path("toy.gguf"));
  auto opened = GgufFile::open(path("toy.gguf"));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const GgufFile file = std::move(opened).value();
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].name, "b");
  EXPECT_EQ(text_of(*file.find("a")), "aaa");
  EXPECT_EQ(text_of(*file.find("b")), "bb");
  EXPECT_EQ(file.find("b")->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(file.find("b")->ggml_type, kI8);
  EXPECT_TRUE(file.find("unknown")->bytes.empty());
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(file.files().size(), 1U);
  GgufMetadataReader reader = file.metadata_reader();
  EXPECT_EQ(reader.string("general.architecture"), "llama");
  reader.refuse("general.architecture", "\"qwen2\"");
  EXPECT_TRUE(reader.status().message().starts_with(path("toy.gguf").string() + ": metadata key"));
}

TEST_F(GgufFileTest, JoinsThePartsWhicheverIsGiven) {
  write_parts();
  for (const uint32_t given : {1U, 2U, 3U}) {
    auto opened = GgufFile::open(part(given));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const GgufFile file = std::move(opened).value();
    ASSERT_EQ(file.files().size(), 3U);
    EXPECT_EQ(file.files()[0].path(), part(1));
    EXPECT_EQ(file.metadata_reader().string("general.architecture"), "llama");
    ASSERT_EQ(file.tensors().size(), 3U);
    EXPECT_EQ(text_of(file.tensors()[0]), "aa");
    EXPECT_EQ(text_of(file.tensors()[1]), "bb");
    EXPECT_EQ(text_of(file.tensors()[2]), "cc");
    EXPECT_EQ(file.find("a")->part, 1U);
    EXPECT_EQ(file.find("b")->part, 0U);
  }
}

TEST_F(GgufFileTest, AFirstPartMayHaveNoTensorsAndOnePartAnyName) {
  GgufRig().split(0, 2, 1).write(part(1, 2));
  GgufRig().split(1, 2, 1).tensor("a", kI8, {2}, "aa").write(part(2, 2));
  EXPECT_TRUE(GgufFile::open(part(1, 2)).ok());
  GgufRig().split(0, 1, 1).tensor("a", kI8, {2}, "aa").write(path("toy.gguf"));
  EXPECT_TRUE(GgufFile::open(path("toy.gguf")).ok());
  GgufRig().split(0, 1, 1).tensor("a", kI8, {2}, "aa").write(part(1, 1));
  EXPECT_TRUE(GgufFile::open(part(1, 1)).ok());
}

TEST_F(GgufFileTest, RefusesAPartThatIsMissing) {
  write_parts();
  std::filesystem::remove(part(2));
  expect_refused(
      part(3), StatusCode::kNotFound,
      part(2).string() +
          ": No such file or directory (part 2 of 3); accepted: all parts in one folder");
  std::filesystem::remove(part(1));
  expect_refused(part(3), StatusCode::kNotFound,
                 part(3).string() +
                     ": found part 3 of 3 without part 1; accepted: all parts in one folder, "
                     "where " +
                     part(1).filename().string() + " is missing");
  std::filesystem::remove(part(3));
  expect_refused(
      part(3), StatusCode::kNotFound,
      part(1).string() +
          ": No such file or directory (part 1 of 3); accepted: all parts in one folder");
}

TEST_F(GgufFileTest, RefusesNamesThatNoPartHas) {
  for (const uint32_t number : {0U, 4U}) {
    expect_refused(part(number), StatusCode::kInvalidArgument,
                   part(number).string() + ": found the name of part " + std::to_string(number) +
                       " of 3; accepted: parts from 1 to the number of parts");
  }
}

TEST_F(GgufFileTest, RefusesFirstPartsThatContradictTheirNames) {
  GgufRig().tensor("a", kI8, {2}, "aa").write(part(1));
  expect_refused(
      part(1), StatusCode::kCorrupt,
      part(1).string() +
          ": found the name of part 1 of 3, but no metadata key \"split.count\"; "
          "accepted: a part as llama-gguf-split writes it, or a whole model under another "
          "name");
  second().write(part(1));
  expect_refused(part(1), StatusCode::kCorrupt,
                 part(1).string() +
                     ": found part 2 of 3, as its metadata say; accepted: part 1 of "
                     "3, as its name says");
  first().write(part(1, 2));
  expect_refused(part(1, 2), StatusCode::kCorrupt,
                 part(1, 2).string() +
                     ": found part 1 of 3, as its metadata say; accepted: part 1 "
                     "of 2, as its name says");
  first().write(path("toy.gguf"));
  expect_refused(path("toy.gguf"), StatusCode::kCorrupt,
                 path("toy.gguf").string() +
                     ": found part 1 of 3, as its metadata say; accepted: parts under names like "
                     "NAME-00001-of-00002.gguf");
}

TEST_F(GgufFileTest, RefusesLaterPartsThatContradictTheFirst) {
  write_parts();
  std::filesystem::copy_file(part(3), part(2), std::filesystem::copy_options::overwrite_existing);
  expect_refused(part(1), StatusCode::kCorrupt,
                 part(2).string() +
                     ": found part 3 of 3, as its metadata say; accepted: part 2 of "
                     "3, as its name says");
  GgufRig().split(1, 4, 3).tensor("a", kI8, {2}, "aa").write(part(2));
  expect_refused(part(1), StatusCode::kCorrupt,
                 part(2).string() +
                     ": found part 2 of 4, as its metadata say; accepted: part 2 of "
                     "3, as its name says");
  GgufRig().split(1, 3, 4).tensor("a", kI8, {2}, "aa").write(part(2));
  expect_refused(part(1), StatusCode::kCorrupt,
                 part(2).string() +
                     ": metadata key \"split.tensors.count\": found 4; accepted: 3, "
                     "as in the first part");
  GgufRig().tensor("a", kI8, {2}, "aa").write(part(2));
  expect_refused(
      part(1), StatusCode::kCorrupt,
      part(2).string() + ": found no metadata key \"split.count\"; accepted: part 2 of 3");
  GgufRig().split(1, 3, 3).write(part(2));
  expect_refused(part(1), StatusCode::kCorrupt,
                 part(1).string() +
                     ": metadata key \"split.tensors.count\": found 3; accepted: 2, "
                     "which the parts hold");
  GgufRig().split(1, 3, 3).tensor("b", kI8, {2}, "aa").write(part(2));
  expect_refused(part(1), StatusCode::kCorrupt,
                 part(2).string() +
                     ": tensor \"b\": found again; accepted: every tensor once, and it is in " +
                     part(1).string());
}

TEST_F(GgufFileTest, RefusesSplitMetadataThatAreIncompleteOrOutOfRange) {
  const auto file = path("toy.gguf");
  GgufRig().value<uint16_t>("split.no", 0).write(file);
  expect_refused(
      file, StatusCode::kCorrupt,
      file.string() +
          ": metadata key \"split.count\": found nothing; accepted: an integer from 1 to "
          "99999");
  GgufRig().split(1, 1, 0).write(file);
  expect_refused(
      file, StatusCode::kCorrupt,
      file.string() + ": metadata key \"split.no\": found 1; accepted: an integer from 0 to 0");
  GgufRig().split(0, 1, -1).write(file);
  expect_refused(
      file, StatusCode::kCorrupt,
      file.string() +
          ": metadata key \"split.tensors.count\": found -1; accepted: an integer from 0 "
          "to 9223372036854775807");
}

TEST_F(GgufFileTest, RefusesOtherFilesByName) {
  const auto file = path("toy.gguf");
  expect_refused(file, StatusCode::kNotFound, file.string() + ": No such file or directory");
  ASSERT_TRUE(write_text(file, "").ok());
  expect_refused(file, StatusCode::kCorrupt,
                 file.string() +
                     ": start of the file: found 0 bytes at byte 0; accepted: at least "
                     "4 (is the file truncated?)");
  ASSERT_TRUE(write_text(file, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n").ok());
  expect_refused(file, StatusCode::kCorrupt,
                 file.string() +
                     ": found a Git LFS pointer; accepted: the file itself (run: git lfs "
                     "pull)");
  EXPECT_EQ(GgufFile::open(dir_.path()).status().code(), StatusCode::kInvalidArgument);
}

// The file is sparse: the limit of the header must be checked before its zeros are read.
TEST_F(GgufFileTest, RefusesHeadersBeyondTheLimit) {
  const auto file = path("toy.gguf");
  GgufRig rig;
  rig.raw_value("k", 8, gguf_bytes(kMaxGgufHeaderBytes)).write(file);
  std::filesystem::resize_file(file, 2 * kMaxGgufHeaderBytes);
  expect_refused(file, StatusCode::kCorrupt,
                 file.string() +
                     ": metadata key \"k\": found 268435411 bytes at byte 45; accepted: at least "
                     "268435456 (a header may have 268435456 bytes)");
}

TEST(GgufPartName, ReadsAndWritesNames) {
  const auto name = parse_gguf_part_name("Toy-00001-of-00002-00012-of-00345.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->name, "Toy-00001-of-00002");
  EXPECT_EQ(name->part, 12U);
  EXPECT_EQ(name->num_parts, 345U);
  EXPECT_EQ(gguf_part_name(*name), "Toy-00001-of-00002-00012-of-00345.gguf");
  for (const char* other :
       {"", "toy.gguf", "toy-00001-of-00002", "toy-1-of-2.gguf", "toy-00001-of-0000x.gguf",
        "toy_00001-of-00002.gguf", "00001-of-00002.gguf", "toy-00001-to-00002.gguf"}) {
    EXPECT_FALSE(parse_gguf_part_name(other).has_value()) << other;
  }
}

}  // namespace
}  // namespace forerun
