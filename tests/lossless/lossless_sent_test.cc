// The promise on models that hosts are sent: a target whose stages are other processes' (threads
// here), each with a copy of what it needs in a cache of its own, gives what the whole one gives.
// The rest of a copy is a hole, or rubbish.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file_chunks.h"
#include "engine/load/stage_host.h"
#include "hosts/hosts.h"
#include "hosts/local_transport.h"
#include "lossless/lossless_cases.h"

namespace forerun::testing {
namespace {

constexpr int32_t kStages = 3;

// Stages of more than a chunk each.
Precision of_large_layers(size_t idx) {
  Precision precision = precisions()[idx];
  ToySpec& spec = precision.spec;
  spec.num_layers = 6;
  spec.hidden_size = 256;
  spec.intermediate_size = 1024;
  spec.vocab_size = 2000;
  return precision;
}

// A launch whose stages have caches of their own.
class SentLaunch {
 public:
  SentLaunch(EngineOptions options, const std::filesystem::path& caches) : network_(kStages + 1) {
    for (int32_t rank = 1; rank <= kStages; ++rank) {
      stages_.emplace_back([this, options, caches, rank]() mutable {
        auto joined = Hosts::join(network_.transport(rank), {});
        ASSERT_TRUE(joined.ok()) << joined.status().message();
        options.hosts = std::move(*joined);
        options.send_model = "always";
        options.model_cache = (caches / std::to_string(rank)).string();
        const Status served = run_stage_host(options);
        EXPECT_TRUE(served.ok()) << served.message();
      });
    }
    auto joined = Hosts::join(network_.transport(0), {});
    EXPECT_TRUE(joined.ok()) << joined.status().message();
    if (!joined.ok()) return;
    options.hosts = std::move(*joined);
    options.on_progress = [this](const std::string& what, double) {
      if (what.starts_with("sending target")) ++sent_chunks_;
    };
    auto engine = Engine::create(options);
    status_ = engine.status();
    if (engine.ok()) engine_ = std::move(*engine);
  }
  ~SentLaunch() {
    engine_.reset();
    for (std::thread& stage : stages_) stage.join();
  }

  Engine* engine() { return engine_.get(); }
  const Status& status() const { return status_; }
  int sent_chunks() const { return sent_chunks_; }

 private:
  LocalNetwork network_;
  std::vector<std::thread> stages_;
  std::unique_ptr<Engine> engine_;
  Status status_;
  int sent_chunks_ = 0;
};

std::vector<std::filesystem::path> copied_files(const std::filesystem::path& caches) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(caches)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && !name.starts_with(kFilledFolderMark)) {
      files.push_back(entry.path());
    }
  }
  return files;
}

// Returns how many bytes of holes there were.
uint64_t fill_holes(const std::vector<std::filesystem::path>& files) {
  uint64_t filled = 0;
  for (const std::filesystem::path& path : files) {
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    const auto size = static_cast<off_t>(std::filesystem::file_size(path));
    for (off_t at = lseek(file, 0, SEEK_HOLE); at >= 0 && at < size;
         at = lseek(file, at, SEEK_HOLE)) {
      off_t end = lseek(file, at, SEEK_DATA);
      if (end < 0) end = size;
      const std::string rubbish(static_cast<size_t>(end - at), '\x7e');
      EXPECT_EQ(pwrite(file, rubbish.data(), rubbish.size(), at), end - at);
      filled += rubbish.size();
    }
    close(file);
  }
  return filled;
}

class LosslessSent : public ::testing::TestWithParam<size_t> {};

TEST_P(LosslessSent, EqualTheWholeModel) {
  if (on_gpu()) GTEST_SKIP() << "stages on processors";
  if (!runs(GetParam())) return;
  const Precision precision = of_large_layers(GetParam());
  const ToyPair pair(precision.spec);
  const auto whole = make_engine(pair.target(), pair.draft(), precision);
  ASSERT_NE(whole, nullptr);
  EngineOptions options;
  options.model = pair.target();
  options.draft = pair.draft();
  options.weights = precision.weights;
  options.activations = precision.activations;
  options.devices = one_processor();
  TempDir caches;
  for (const bool is_first : {true, false}) {
    SentLaunch launch(options, caches.path());
    ASSERT_NE(launch.engine(), nullptr) << launch.status().message();
    EXPECT_EQ(launch.sent_chunks() > 0, is_first) << launch.sent_chunks();
    EXPECT_EQ(launch.engine()->info().numeric_fingerprint, whole->info().numeric_fingerprint);
    for (uint64_t seed = 0; seed < 2; ++seed) {
      Request request = request_of(seed + GetParam(), seed > 0);
      request.output_format = {};  // hosts take none
      request.speculation = SpeculationOptions{.strategy = "autoregressive"};
      const Output plain = complete(*whole, request);
      std::vector<Request> requests =
          slice(by_every_policy(request, precision, "pipelined"), 4, seed + GetParam());
      requests.push_back(request);
      const std::vector<Output> outputs = complete_together(*launch.engine(), requests);
      for (size_t idx = 0; idx < outputs.size(); ++idx) {
        expect_same(plain, outputs[idx], precision.name + ", " + describe(requests[idx]));
      }
    }
    if (is_first) {
      EXPECT_GT(fill_holes(copied_files(caches.path())), kFileChunkBytes) << precision.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, LosslessSent, ::testing::Range<size_t>(0, precisions().size()),
                         [](const auto& test) { return precisions()[test.param].name; });

}  // namespace
}  // namespace forerun::testing
