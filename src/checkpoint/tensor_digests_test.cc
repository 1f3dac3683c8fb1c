#include "checkpoint/tensor_digests.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/kept_digests.h"
#include "checkpoint/testing.h"

namespace forerun {
namespace {

std::vector<const RawTensor*> all_tensors(const Checkpoint& checkpoint) {
  std::vector<const RawTensor*> tensors;
  for (const RawTensor& tensor : checkpoint.tensors()) tensors.push_back(&tensor);
  return tensors;
}

Checkpoint opened_checkpoint(const std::filesystem::path& dir) {
  auto checkpoint = Checkpoint::open(dir);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  return std::move(checkpoint).value();
}

struct Made {
  std::vector<std::string> digests;
  std::vector<std::string> files;
  int64_t read_bytes = 0;
};

Made digests(const std::filesystem::path& dir, const DigestOptions& options = {}) {
  const Checkpoint checkpoint = opened_checkpoint(dir);
  const auto made = digest_tensors(checkpoint, all_tensors(checkpoint), options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  Made all;
  if (!made.ok()) return all;
  all.read_bytes = made->read_bytes;
  for (const TensorDigests::One& tensor : made->tensors) {
    all.digests.push_back(tensor.digest);
    all.files.push_back(tensor.file);
  }
  return all;
}

void flip_bit(const std::filesystem::path& file, int64_t offset) {
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekg(offset);
  const auto byte = static_cast<char>(out.get() ^ 0x10);
  out.seekp(offset);
  out.put(byte);
}

// Sets the file's times so far back that kept digests count it as settled.
void make_old(const std::filesystem::path& file) {
  const timespec old[2] = {{.tv_sec = 1000000000, .tv_nsec = 0},
                           {.tv_sec = 1000000000, .tv_nsec = 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), old, 0), 0);
}

class TensorDigestsTest : public ::testing::Test {
 protected:
  std::filesystem::path model(const std::string& name, const ToySpec& spec) {
    const std::filesystem::path dir = folder_.path() / name;
    EXPECT_TRUE(write_toy_checkpoint(dir, spec).ok());
    return dir;
  }
  // Returns a spec with an embedding and a head of more than one block.
  static ToySpec large() {
    ToySpec spec;
    spec.num_layers = 1;
    spec.vocab_size = 20000;
    return spec;
  }
  TempDir folder_;
};

TEST_F(TensorDigestsTest, DependOnTheBytesAloneAndNotOnTheFile) {
  ToySpec spec = large();
  const Made whole = digests(model("whole", spec));
  spec.num_shards = 3;
  const Made sharded =
      digests(model("sharded", spec), {.folder = {}, .threads = 4, .progress = {}});
  EXPECT_EQ(whole.digests, sharded.digests);
  EXPECT_EQ(std::set<std::string>(whole.files.begin(), whole.files.end()).size(), 1U);
  EXPECT_EQ(std::set<std::string>(sharded.files.begin(), sharded.files.end()).size(), 3U);
  // Random tensors differ; norms, which are all ones, do not.
  EXPECT_GT(std::set<std::string>(whole.digests.begin(), whole.digests.end()).size(), 8U);
  for (const std::string& digest : whole.digests) EXPECT_EQ(digest.size(), 32U);
}

TEST_F(TensorDigestsTest, ChangeWithOneBitAnywhere) {
  const std::filesystem::path dir = model("m", large());
  const Checkpoint checkpoint = opened_checkpoint(dir);
  const Made before = digests(dir);
  for (size_t idx = 0; idx < before.digests.size(); ++idx) {
    const RawTensor& tensor = checkpoint.tensors()[idx];
    const auto size = static_cast<int64_t>(tensor.bytes.size());
    if (kSanitized && idx % 3 != 0) continue;
    for (const int64_t at : {int64_t{0}, size / 2, size - 1}) {
      const int64_t place = checkpoint.offset_of(tensor) + at;
      flip_bit(checkpoint.file_of(tensor), place);
      const Made after = digests(dir);
      for (size_t other = 0; other < before.digests.size(); ++other) {
        EXPECT_EQ(after.digests[other] != before.digests[other], other == idx)
            << tensor.name << " byte " << at;
      }
      flip_bit(checkpoint.file_of(tensor), place);
    }
  }
  EXPECT_EQ(digests(dir).digests, before.digests);
}

TEST_F(TensorDigestsTest, AreKeptUntilTheFileChanges) {
  const std::filesystem::path dir = model("m", ToySpec());
  const std::filesystem::path file = dir / "model.safetensors";
  const DigestOptions options{.folder = folder_.path() / "kept", .threads = 2, .progress = {}};
  const Made first = digests(dir, options);
  EXPECT_GT(first.read_bytes, 0);

  // Keeps the digests that digest_tensors() would keep two seconds later.
  FileState state;
  {
    const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    state = state_of_file(file, descriptor).value();
    close(descriptor);
  }
  const Checkpoint checkpoint = opened_checkpoint(dir);
  DigestsByPlace kept;
  for (size_t idx = 0; idx < first.digests.size(); ++idx) {
    kept[checkpoint.offset_of(checkpoint.tensors()[idx])] = first.digests[idx];
  }
  ASSERT_TRUE(KeptDigests(options.folder).keep(state, kept));
  const Made second = digests(dir, options);
  EXPECT_EQ(second.read_bytes, 0);
  EXPECT_EQ(second.digests, first.digests);

  // Size and mtime are unchanged, but the change must be noticed.
  make_old(file);
  EXPECT_GT(digests(dir, options).read_bytes, 0);
  flip_bit(file, checkpoint.offset_of(checkpoint.tensors()[0]));
  make_old(file);
  EXPECT_NE(digests(dir, options).digests[0], first.digests[0]);
}

TEST(KeptDigestsTest, HoldForOneStateOfOneFile) {
  const FileState state{"/m/model.safetensors", 1, 2, 3, 4, 5};
  const DigestsByPlace digests = {{8, std::string(32, 'a')}, {4096, std::string(32, '0')}};
  const std::string text = write_kept_digests(state, digests);
  EXPECT_EQ(parse_kept_digests(text, state), digests);
  for (const FileState& other : {FileState{"/n/model.safetensors", 1, 2, 3, 4, 5},
                                 {"/m/model.safetensors", 9, 2, 3, 4, 5},
                                 {"/m/model.safetensors", 1, 9, 3, 4, 5},
                                 {"/m/model.safetensors", 1, 2, 9, 4, 5},
                                 {"/m/model.safetensors", 1, 2, 3, 9, 5},
                                 {"/m/model.safetensors", 1, 2, 3, 4, 9}}) {
    EXPECT_EQ(parse_kept_digests(text, other), std::nullopt);
  }
  for (size_t length = 0; length < text.size(); ++length) {
    const auto cut = parse_kept_digests(std::string_view(text).substr(0, length), state);
    EXPECT_LT(cut.value_or(DigestsByPlace()).size(), digests.size());
  }
  for (const char* const bad :
       {"8 short\n", "-1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", "x\n", "8\n"}) {
    EXPECT_EQ(parse_kept_digests(write_kept_digests(state, {}) + bad, state), std::nullopt) << bad;
  }
}

TEST(KeptDigestsTest, AreMergedByWhoeverKeepsThem) {
  TempDir folder;
  const KeptDigests kept(folder.path());
  const FileState state{"/m", 1, 2, 3, 4, 5};
  ASSERT_TRUE(kept.keep(state, {{8, std::string(32, 'a')}}));
  ASSERT_TRUE(kept.keep(state, {{16, std::string(32, 'b')}}));
  EXPECT_EQ(kept.find(state).size(), 2U);
  FileState later = state;
  later.changed_ns = 6;
  ASSERT_TRUE(kept.keep(later, {{24, std::string(32, 'c')}}));
  EXPECT_EQ(kept.find(later).size(), 1U);
  EXPECT_TRUE(kept.find(state).empty());
}

TEST(KeptDigestsTest, DoNotTrustAChangeOfLately) {
  const FileState state{.path = "/m", .modified_ns = 10'000'000'000, .changed_ns = 11'000'000'000};
  EXPECT_FALSE(is_settled(state, 11'000'000'001));
  EXPECT_FALSE(is_settled(state, 13'000'000'000));
  EXPECT_TRUE(is_settled(state, 13'000'000'001));
}

TEST_F(TensorDigestsTest, NameTheFileThatIsGone) {
  const std::filesystem::path dir = model("m", ToySpec());
  const Checkpoint checkpoint = opened_checkpoint(dir);
  std::filesystem::remove(dir / "model.safetensors");
  const auto none = digest_tensors(checkpoint, all_tensors(checkpoint), {});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("model.safetensors"), std::string::npos);
}

TEST_F(TensorDigestsTest, AreMadeAlsoWhereNoneCanBeKept) {
  const std::filesystem::path dir = model("m", ToySpec());
  const DigestOptions options{.folder = "/proc/nowhere", .threads = 1, .progress = {}};
  EXPECT_EQ(digests(dir, options).digests, digests(dir).digests);
}

}  // namespace
}  // namespace forerun
