#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "checkpoint/read_ahead.h"
#include "forerun/sigbus_handler.h"

namespace forerun {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBytes = 8 * kPage;

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = std::filesystem::path(testing::TempDir()) /
           ("mapped_file_" + std::to_string(getpid()) + test->name());
    std::filesystem::create_directories(dir_);
    write(path(), std::string(kBytes, 'w'));
  }
  void TearDown() override {
    set_log_sink(nullptr);
    std::filesystem::remove_all(dir_);
  }

  std::filesystem::path path() const { return dir_ / "model.safetensors"; }
  static void write(const std::filesystem::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }
  // Writes in place, as `cp` over the file does. Sets a modification time one second later, since
  // file systems may record times coarsely.
  void overwrite(const std::string& content) const {
    write(path(), content);
    timespec times[2] = {{0, UTIME_OMIT}, {time(nullptr) + 1, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path().c_str(), times, 0), 0);
  }
  MappedFile open() const {
    auto file = MappedFile::open(path());
    EXPECT_TRUE(file.ok()) << file.status().message();
    return std::move(file).value();
  }
  void expect_failed(const MappedFile& file, const std::string& word) const {
    const Status status = file.check();
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_TRUE(status.message().starts_with(path().string() + ": ")) << status.message();
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }

  std::filesystem::path dir_;
};

TEST_F(MappedFileTest, IsFineWhileNothingHappens) {
  const MappedFile file = open();
  EXPECT_EQ(file.bytes().size(), kBytes);
  EXPECT_TRUE(file.check().ok());
}

TEST_F(MappedFileTest, PagesThatAreGoneReadAsZerosAndTheFileIsNamed) {
  install_sigbus_handler();
  std::vector<std::string> log;
  set_log_sink([&log](LogLevel, std::string_view line) { log.emplace_back(line); });
  MappedFile opened = open();
  const MappedFile file = std::move(opened);  // checkpoints move theirs, too
  std::filesystem::resize_file(path(), kPage);
  // Many threads check at once, as a team does.
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&file] {
      const auto gone = file.bytes().subspan(kPage);
      EXPECT_EQ(std::count(gone.begin(), gone.end(), std::byte{0}),
                static_cast<std::ptrdiff_t>(gone.size()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_failed(file, "found 4096 bytes, it had 32768");
  // The failure stays whatever happens to the file later, and is logged once.
  write(path(), std::string(kBytes, 'w'));
  expect_failed(file, "found 4096 bytes, it had 32768");
  ASSERT_EQ(log.size(), 1U);
  EXPECT_TRUE(log[0].starts_with(path().string())) << log[0];
}

TEST_F(MappedFileTest, ACutWithinAPageRaisesNothingAndIsFound) {
  const MappedFile file = open();
  std::filesystem::resize_file(path(), kBytes - 100);
  EXPECT_EQ(file.bytes().back(), std::byte{0});
  expect_failed(file, "found 32668 bytes, it had 32768");
}

TEST_F(MappedFileTest, AnotherFileOfTheSameSizeInItsPlaceIsFound) {
  const MappedFile file = open();
  overwrite(std::string(kBytes, 'x'));
  expect_failed(file, "was written to");
}

TEST_F(MappedFileTest, AFileThatIsReplacedOrRemovedIsAsItWas) {
  const MappedFile file = open();
  write(dir_ / "new", "short");
  std::filesystem::rename(dir_ / "new", path());
  EXPECT_TRUE(file.check().ok());
  std::filesystem::remove(path());
  EXPECT_TRUE(file.check().ok());
  EXPECT_EQ(file.bytes()[kPage], std::byte{'w'});
}

// Touches a mapping of a truncated file that does not belong to the library.
void touch_a_foreign_page(const std::filesystem::path& path) {
  std::ofstream(path) << std::string(kPage, 'f');
  std::FILE* const file = std::fopen(path.c_str(), "r");
  const auto* const map =
      static_cast<volatile char*>(mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, fileno(file), 0));
  std::filesystem::resize_file(path, 0);
  (void)map[0];
}

using MappedFileDeathTest = MappedFileTest;

TEST_F(MappedFileDeathTest, OtherFaultsGoToTheHandlerThatWasThere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, [](int) { _exit(42); });
        install_sigbus_handler();
        const MappedFile file = open();
        touch_a_foreign_page(dir_ / "foreign");
      },
      testing::ExitedWithCode(42), "");
  EXPECT_EXIT(
      {
        struct sigaction action {};
        action.sa_flags = SA_SIGINFO;
        action.sa_sigaction = [](int, siginfo_t* info, void*) {
          _exit(info->si_code == BUS_ADRERR ? 43 : 1);
        };
        sigaction(SIGBUS, &action, nullptr);
        install_sigbus_handler();
        install_sigbus_handler();
        touch_a_foreign_page(dir_ / "foreign");
      },
      testing::ExitedWithCode(43), "");
}

TEST_F(MappedFileDeathTest, OrEndTheProcessAsTheyWouldHave) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const auto before : {SIG_DFL, SIG_IGN}) {
    EXPECT_EXIT(
        {
          std::signal(SIGBUS, before);
          install_sigbus_handler();
          touch_a_foreign_page(dir_ / "foreign");
        },
        testing::KilledBySignal(SIGBUS), "");
  }
  // These are signals that a process has sent.
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);
        install_sigbus_handler();
        raise(SIGBUS);
        _exit(1);
      },
      testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_IGN);
        install_sigbus_handler();
        raise(SIGBUS);
        _exit(44);
      },
      testing::ExitedWithCode(44), "");
}

// The test never touches the memory. The window is twice the largest tensor: 20 pieces of 4 MiB.
TEST(ReadAhead, StaysAtMostAWindowAheadAndKeepsTheOrder) {
  constexpr size_t kPiece = size_t{4} << 20;
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(43 * kPiece);
  std::vector<ReadAhead::Bytes> tensors;
  size_t begin = 0;
  for (const size_t pieces : {10, 10, 10, 10, 1, 2}) {
    tensors.emplace_back(memory.get() + begin, pieces * kPiece - 100);
    begin += pieces * kPiece;
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<ReadAhead::Bytes> pieces;
  const auto wait_for = [&](size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), [&] { return pieces.size() >= count; });
  };
  {
    ReadAhead ahead(tensors, 1, [&](ReadAhead::Bytes piece) {
      const std::lock_guard lock(mutex);
      pieces.push_back(piece);
      changed.notify_one();
    });
    ASSERT_TRUE(wait_for(20));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    {
      const std::lock_guard lock(mutex);
      ASSERT_EQ(pieces.size(), 20u);
    }
    ahead.done(ReadAhead::Bytes(memory.get() + 17, 5));  // not in the list
    ahead.done(tensors[1]);                              // finishes the one before it, too
    ASSERT_TRUE(wait_for(40));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    {
      const std::lock_guard lock(mutex);
      ASSERT_EQ(pieces.size(), 40u);
    }
    ahead.done(tensors[2]);
    ASSERT_TRUE(wait_for(43));
  }
  size_t piece = 0;
  for (const ReadAhead::Bytes tensor : tensors) {
    for (size_t offset = 0; offset < tensor.size(); offset += kPiece, ++piece) {
      EXPECT_EQ(pieces[piece].data(), tensor.data() + offset);
      EXPECT_EQ(pieces[piece].size(), std::min(kPiece, tensor.size() - offset));
    }
  }
  EXPECT_EQ(piece, pieces.size());
}

TEST(ReadAhead, StopsWithoutBeingDone) {
  std::vector<std::byte> memory(100);
  const std::vector<ReadAhead::Bytes> tensors(3, memory);
  for (int round = 0; round < 100; ++round) {
    const ReadAhead ahead(tensors, 0, [](ReadAhead::Bytes) {});
  }
  const ReadAhead none({}, 0, [](ReadAhead::Bytes) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace forerun
