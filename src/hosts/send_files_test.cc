// Files from a coordinator to stages, who are threads here: what is lacking comes, once, as it is,
// whatever breaks on the way.
#include "hosts/send_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/testing.h"
#include "hosts/file_frames.h"
#include "hosts/local_transport.h"
#include "wire/testing.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {
namespace {

constexpr uint64_t kMiB = kFileChunkBytes;

std::string random_text(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text(bytes, ' ');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void flip_bit(const std::filesystem::path& file, int64_t offset) {
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekg(offset);
  const auto byte = static_cast<char>(out.get() ^ 0x10);
  out.seekp(offset);
  out.put(byte);
}

ManifestFile described(const std::string& name, const std::string& content) {
  ManifestFile file{name, content.size(), {}};
  const auto bytes = std::as_bytes(std::span(content.data(), content.size()));
  for (uint64_t chunk = 0; chunk < file.chunks(); ++chunk) {
    const Sha256 digest = sha256(bytes.subspan(chunk * kMiB, chunk_bytes(content.size(), chunk)));
    file.digests.insert(file.digests.end(), digest.begin(), digest.end());
  }
  return file;
}

// Two files of a coordinator: one of a byte more than five chunks, and a small one.
struct Source {
  explicit Source(uint64_t seed = 1)
      : large(random_text(5 * kMiB + 1, seed)), small(random_text(300, seed + 1)) {
    write("large.bin", large);
    write("small.json", small);
    manifest = {"model", {described("large.bin", large), described("small.json", small)}};
  }
  void write(const char* name, const std::string& content) const {
    std::ofstream(dir.path() / name, std::ios::binary) << content;
  }

  TempDir dir;
  std::string large, small;
  FileManifest manifest;
};

// Changes the first chunks that pass: `broken` of them.
class BreakingTransport : public Transport {
 public:
  BreakingTransport(std::unique_ptr<Transport> inner, int broken)
      : inner_(std::move(inner)), left_(broken) {}
  int32_t rank() const override { return inner_->rank(); }
  int32_t num_ranks() const override { return inner_->num_ranks(); }
  Status send(int32_t to, Bytes message) override { return inner_->send(to, std::move(message)); }
  Result<std::optional<Received>> poll() override {
    auto received = inner_->poll();
    if (!received.ok() || !*received || left_ == 0) return received;
    Bytes& message = (*received)->message;
    const auto header = read_frame(message, kLastFrameKind);
    if (header.ok() && header->kind == static_cast<uint8_t>(FrameKind::kChunk)) {
      message.back() ^= std::byte{4};
      --left_;
    }
    return received;
  }
  bool has_sent_all() const override { return inner_->has_sent_all(); }

 private:
  const std::unique_ptr<Transport> inner_;
  int left_;
};

struct Stage {
  std::filesystem::path cache;
  std::vector<ManifestRange> ranges;
  int broken = 0;  // chunks on their way
};

struct Sent {
  std::vector<Status> status;                  // by rank
  std::vector<std::filesystem::path> folders;  // by stage
  uint64_t bytes = 0;
};

Sent send(const Source& source, const std::vector<Stage>& stages) {
  const auto num_ranks = static_cast<int32_t>(stages.size()) + 1;
  LocalNetwork network(num_ranks);
  Sent sent;
  sent.status.resize(stages.size() + 1);
  sent.folders.resize(stages.size());
  std::vector<std::unique_ptr<Hosts>> hosts(stages.size() + 1);
  std::vector<std::thread> threads;
  const auto decide = [](const std::vector<Bytes>&) -> Result<Bytes> { return Bytes(); };
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto place = static_cast<size_t>(rank);
      std::unique_ptr<Transport> transport = network.transport(rank);
      if (rank > 0 && stages[place - 1].broken > 0) {
        transport =
            std::make_unique<BreakingTransport>(std::move(transport), stages[place - 1].broken);
      }
      auto joined = Hosts::join(std::move(transport), {});
      ASSERT_TRUE(joined.ok()) << joined.status().message();
      hosts[place] = std::move(*joined);
      Hosts& own = *hosts[place];
      if (rank == 0) {
        const std::vector<std::filesystem::path> files = {source.dir.path() / "large.bin",
                                                          source.dir.path() / "small.json"};
        auto sender = FileSender::open(files, source.manifest, [&](uint64_t bytes, uint64_t all) {
          EXPECT_LE(bytes, all);
          sent.bytes = bytes;
        });
        sent.status[0] =
            own.settle(sender.ok() ? Result<Bytes>(Bytes()) : sender.status(), decide,
                       [&](const Incoming& ask) { return (*sender)->answer(own, ask); })
                .status();
        return;
      }
      const Stage& stage = stages[place - 1];
      auto copy = ReceivedFiles::open(stage.cache, source.manifest);
      Status status = copy.status();
      if (copy.ok()) {
        sent.folders[place - 1] = copy->folder();
        status = fetch_files(own, *copy, stage.ranges);
      }
      sent.status[place] =
          own.settle(status.ok() ? Result<Bytes>(Bytes()) : status, decide).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return sent;
}

void expect_ok(const Sent& sent) {
  for (const Status& status : sent.status) EXPECT_TRUE(status.ok()) << status.message();
}

void expect_all_say(const Sent& sent, const std::string& part) {
  for (const Status& status : sent.status) {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

TEST(SendFiles, StagesGetTheirRangesAndNothingTwice) {
  const Source source;
  TempDir caches;
  // The end of the first chunk and the beginning of the second; the last byte and the small file.
  const std::vector<Stage> stages = {
      {caches.path() / "a", {{0, kMiB - 1, kMiB + 1}, {0, 7, 7}}},
      {caches.path() / "b", {{0, 5 * kMiB, 5 * kMiB + 1}, {1, 0, 300}}}};
  const Sent first = send(source, stages);
  expect_ok(first);
  EXPECT_EQ(first.bytes, 2 * kMiB + 1 + 300);
  const std::string large_of_a = read_file(first.folders[0] / "large.bin");
  EXPECT_EQ(large_of_a.substr(0, 2 * kMiB), source.large.substr(0, 2 * kMiB));
  EXPECT_EQ(large_of_a.substr(2 * kMiB), std::string(3 * kMiB + 1, '\0'));
  const std::string large_of_b = read_file(first.folders[1] / "large.bin");
  EXPECT_EQ(large_of_b.substr(0, 5 * kMiB), std::string(5 * kMiB, '\0'));
  EXPECT_EQ(large_of_b.back(), source.large.back());
  EXPECT_EQ(read_file(first.folders[1] / "small.json"), source.small);
  // The rest is a hole, which takes no room.
  struct stat about {};
  ASSERT_EQ(stat((first.folders[0] / "large.bin").c_str(), &about), 0);
  EXPECT_LE(static_cast<uint64_t>(about.st_blocks) * 512, 3 * kMiB);

  const Sent again = send(source, stages);
  expect_ok(again);
  EXPECT_EQ(again.bytes, 0u);
  const Sent more = send(source, {{stages[0].cache, {{0, 0, 3 * kMiB}}}, stages[1]});
  expect_ok(more);
  EXPECT_EQ(more.bytes, kMiB);
}

TEST(SendFiles, ManyChunksOfSeveralStagesInOneFolder) {
  const Source source;
  TempDir cache;
  const Stage stage{cache.path(), {{0, 0, 5 * kMiB + 1}, {1, 0, 300}}};
  const Sent sent = send(source, {stage, stage, stage});
  expect_ok(sent);
  EXPECT_EQ(read_file(sent.folders[0] / "large.bin"), source.large);
  EXPECT_EQ(sent.folders[0], sent.folders[2]);
}

TEST(SendFiles, WhatIsHereWithoutBeingListedIsComparedAndKept) {
  const Source source;
  TempDir cache;
  const Stage stage{cache.path(), {{0, 0, 5 * kMiB + 1}}};
  const Sent first = send(source, {stage});
  expect_ok(first);
  // The copy looks as it does after a reboot that lost a chunk.
  auto copy = ReceivedFiles::open(cache.path(), source.manifest);
  ASSERT_TRUE(copy.ok());
  copy->doubt();
  flip_bit(first.folders[0] / "large.bin", 2 * kMiB + 5);
  const Sent second = send(source, {stage});
  expect_ok(second);
  EXPECT_EQ(second.bytes, kMiB);
  EXPECT_EQ(read_file(first.folders[0] / "large.bin"), source.large);
}

TEST(SendFiles, ABrokenListCostsComparisonsOnly) {
  const Source source;
  TempDir cache;
  const Stage stage{cache.path(), {{0, 0, 2 * kMiB}}};
  const Sent first = send(source, {stage});
  expect_ok(first);
  for (const auto& entry : std::filesystem::directory_iterator(first.folders[0])) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(std::string(kFilledFolderMark) + "-")) continue;
    std::ofstream(entry.path(), std::ios::binary) << std::string(16, '\xff') << "short";
  }
  const Sent second = send(source, {stage});
  expect_ok(second);
  EXPECT_EQ(second.bytes, 0u);
}

TEST(SendFiles, AChunkThatBreaksOnTheWayIsSentAgain) {
  const Source source;
  TempDir cache;
  const Sent sent = send(source, {{cache.path(), {{0, 0, 3 * kMiB}}, 2}});
  expect_ok(sent);
  EXPECT_EQ(read_file(sent.folders[0] / "large.bin").substr(0, 3 * kMiB),
            source.large.substr(0, 3 * kMiB));
  TempDir other;
  const Sent never = send(source, {{other.path(), {{0, 0, kMiB}}, 100}});
  expect_all_say(never,
                 "large.bin, bytes 0 to 1048576: found bytes with another digest than the "
                 "coordinator's; accepted: what it has");
}

TEST(SendFiles, AFileThatHasChangedIsNamed) {
  const Source source;
  TempDir cache;
  flip_bit(source.dir.path() / "large.bin", kMiB + 3);
  const Sent sent = send(source, {{cache.path(), {{0, 0, 3 * kMiB}}}});
  expect_all_say(sent,
                 "large.bin: found other bytes than when its digests were made (large.bin, "
                 "bytes 1048576 to 2097152); accepted: a file that stays as it is");
  std::filesystem::resize_file(source.dir.path() / "large.bin", kMiB);
  const Sent shorter = send(source, {{cache.path(), {{0, 0, 3 * kMiB}}}});
  expect_all_say(shorter, "it has become shorter since it was opened");
}

TEST(SendFiles, AnotherModelOfTheNameHasAFolderOfItsOwn) {
  const Source one(1), other(2);
  TempDir cache;
  const Stage stage{cache.path(), {{0, 0, 5 * kMiB + 1}}};
  const Sent first = send(one, {stage}), second = send(other, {stage});
  expect_ok(first);
  expect_ok(second);
  EXPECT_NE(first.folders[0], second.folders[0]);
  EXPECT_EQ(read_file(first.folders[0] / "large.bin"), one.large);
  EXPECT_EQ(read_file(second.folders[0] / "large.bin"), other.large);
}

TEST(SendFiles, AFolderThatCannotBeMadeIsNamed) {
  const Source source;
  TempDir cache;
  source.write("file", "");
  const std::filesystem::path folder = source.dir.path() / "file";
  const Sent sent = send(source, {{folder, {{0, 0, 1}}}, {cache.path(), {{0, 0, 1}}}});
  expect_all_say(sent, "rank 1 (stage 1 of 2)");
  expect_all_say(sent, "copy of the model: " + folder.string());
  expect_all_say(sent, "accepted: a folder with room that this user may write to (--model-cache)");
}

TEST(FileManifest, RefusesNamesAndSizesThatCannotBe) {
  const Source source;
  EXPECT_TRUE(check_manifest(source.manifest).ok());
  const auto refused = [&](auto&& spoil, const std::string& part) {
    FileManifest manifest = source.manifest;
    spoil(manifest);
    const Status status = check_manifest(manifest);
    EXPECT_EQ(status.code(), StatusCode::kCorrupt);
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  for (const std::string name :
       {"", ".", "..", "a/b", "/etc/passwd", ".forerun-sent", ".forerun-sent-x", "small.json"}) {
    refused([&](FileManifest& manifest) { manifest.files[0].name = name; },
            "found a file named '" + name + "'");
  }
  refused([](FileManifest& manifest) { manifest.files[0].bytes = kMiB * 7; }, "bytes of digests");
  refused([](FileManifest& manifest) { manifest.files[1].digests.pop_back(); },
          "found 31 bytes of digests for 300 bytes of small.json");
  refused([](FileManifest& manifest) { manifest.files[0].bytes = UINT64_MAX; }, "bytes of digests");
  refused([](FileManifest& manifest) { manifest.name = "../up"; }, "the name '../up'");
  EXPECT_FALSE(check_ranges(source.manifest, std::vector<ManifestRange>{{2, 0, 0}}).ok());
  EXPECT_FALSE(check_ranges(source.manifest, std::vector<ManifestRange>{{1, 0, 301}}).ok());
  EXPECT_FALSE(check_ranges(source.manifest, std::vector<ManifestRange>{{1, 9, 8}}).ok());
  EXPECT_FALSE(check_chunk(source.manifest, {1, 1}).ok());
}

TEST(FileManifest, KeysDifferByContentAlone) {
  const Source one(1), other(2);
  FileManifest renamed = one.manifest;
  renamed.name = "another";
  EXPECT_EQ(manifest_key(one.manifest), manifest_key(renamed));
  EXPECT_NE(manifest_key(one.manifest), manifest_key(other.manifest));
}

}  // namespace
}  // namespace forerun
