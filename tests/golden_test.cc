// Logits of the tiny checkpoints of tests/goldens against those that Hugging Face transformers
// computed in f32 (tests/goldens/README.md): one Step for the whole context, then token by token.
// tools/golden_weights.py writes the checkpoints; ctest runs it before this test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors_header.h"
#include "model/testing.h"

namespace forerun {
namespace {

struct Golden {
  std::vector<int32_t> tokens;
  std::vector<int32_t> positions;
  std::vector<float> logits;  // [positions][vocab]
};

template <class T>
std::vector<T> copy_tensor(const MappedFile& file, const SafetensorsEntry& entry) {
  std::vector<T> values((entry.end - entry.begin) / sizeof(T));
  std::memcpy(values.data(), file.bytes().data() + entry.begin, entry.end - entry.begin);
  return values;
}

Golden read_golden(const std::filesystem::path& path) {
  Golden golden;
  auto file = MappedFile::open(path);
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file.ok()) return golden;
  auto entries = parse_safetensors_header(file->bytes(), file->bytes().size());
  EXPECT_TRUE(entries.ok()) << entries.status().message();
  if (!entries.ok()) return golden;
  for (const SafetensorsEntry& entry : *entries) {
    if (entry.name == "tokens") golden.tokens = copy_tensor<int32_t>(*file, entry);
    if (entry.name == "positions") golden.positions = copy_tensor<int32_t>(*file, entry);
    if (entry.name == "logits") golden.logits = copy_tensor<float>(*file, entry);
  }
  return golden;
}

std::vector<std::filesystem::path> golden_dirs() {
  std::vector<std::filesystem::path> dirs;
  std::error_code absent;
  for (const auto& entry :
       std::filesystem::directory_iterator(FORERUN_SOURCE_DIR "/build/goldens", absent)) {
    if (std::filesystem::exists(entry.path() / "golden.safetensors")) dirs.push_back(entry.path());
  }
  std::sort(dirs.begin(), dirs.end());
  return dirs;
}

// The size of a - b relative to the root mean square of b; infinite if a value is not finite.
struct Difference {
  double maximum = 0.0;
  double root_mean_square = 0.0;
};

Difference relative_difference(std::span<const float> a, std::span<const float> b) {
  double worst = 0.0;
  double error_squares = 0.0;
  double squares = 0.0;
  for (size_t index = 0; index < b.size(); ++index) {
    if (!std::isfinite(a[index])) return {INFINITY, INFINITY};
    const double error = static_cast<double>(a[index]) - b[index];
    worst = std::max(worst, std::fabs(error));
    error_squares += error * error;
    squares += static_cast<double>(b[index]) * b[index];
  }
  return {worst / std::sqrt(squares / static_cast<double>(b.size())),
          std::sqrt(error_squares / squares)};
}

class GoldenTest : public ::testing::TestWithParam<std::filesystem::path> {
 protected:
  // Returns the worst difference of any position.
  Difference compare(Activation activation, int64_t rows_per_step,
                     std::vector<int32_t> team_sizes = {2}) {
    Difference worst{INFINITY, INFINITY};
    compare_into(activation, rows_per_step, std::move(team_sizes), worst);
    std::printf("[ measured ] %s, %d rows a step: maximum %.2e, root mean square %.2e\n",
                GetParam().filename().c_str(), static_cast<int>(rows_per_step), worst.maximum,
                worst.root_mean_square);
    return worst;
  }

 private:
  void compare_into(Activation activation, int64_t rows_per_step, std::vector<int32_t> team_sizes,
                    Difference& worst) {
    const Golden golden = read_golden(GetParam() / "golden.safetensors");
    ASSERT_FALSE(golden.tokens.empty());
    ASSERT_FALSE(golden.positions.empty());
    CpuDecoderOptions options;
    options.activation = activation;
    options.kv_blocks = 8;
    auto loaded = LoadedDecoder::open(GetParam(), std::move(team_sizes), options);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    // Blocks out of order, so that slots and positions differ.
    SequenceDriver sequence(loaded->decoder.get(), {5, 2, 7, 0});
    auto logits = sequence.run(golden.tokens, 0, rows_per_step);
    ASSERT_TRUE(logits.ok()) << logits.status().message();
    const auto vocab = static_cast<size_t>(loaded->decoder->config().vocab_size);
    ASSERT_EQ(golden.logits.size(), golden.positions.size() * vocab);
    worst = {};
    for (size_t index = 0; index < golden.positions.size(); ++index) {
      const auto position = static_cast<size_t>(golden.positions[index]);
      const Difference difference =
          relative_difference({logits->data() + position * vocab, vocab},
                              {golden.logits.data() + index * vocab, vocab});
      worst.maximum = std::max(worst.maximum, difference.maximum);
      worst.root_mean_square = std::max(worst.root_mean_square, difference.root_mean_square);
    }
  }
};

constexpr int64_t kAllRows = 1 << 20;

TEST_P(GoldenTest, PrefillInOneStep) {
  EXPECT_LE(compare(Activation::kF32, kAllRows).maximum, 1e-4);
}

TEST_P(GoldenTest, DecodeTokenByToken) { EXPECT_LE(compare(Activation::kF32, 1).maximum, 1e-4); }

TEST_P(GoldenTest, OnSeveralDevices) {
  EXPECT_LE(compare(Activation::kF32, kAllRows, {1, 1}).maximum, 1e-4);
  if (GetParam().filename() == "qwen2-awq-g128")
    return;  // two groups of MLP columns cannot be three
  EXPECT_LE(compare(Activation::kF32, 7, {1, 1, 1}).maximum, 1e-4);
}

// bf16 keeps 8 bits of mantissa; these narrow random models amplify its roundings.
TEST_P(GoldenTest, RoundedToBf16StaysClose) {
  EXPECT_LE(compare(Activation::kBf16, kAllRows).root_mean_square, 0.1);
}

std::string family_name(const ::testing::TestParamInfo<std::filesystem::path>& dir) {
  std::string name = dir.param.filename().string();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenTest);
INSTANTIATE_TEST_SUITE_P(Families, GoldenTest, ::testing::ValuesIn(golden_dirs()), family_name);

TEST(GoldenComparison, SeesWhatItMust) {
  const std::vector<float> reference = {1.0f, -1.0f, 1.0f, -1.0f};
  EXPECT_NEAR(relative_difference(std::vector<float>{1.0f, -1.0f, 1.0f, -1.5f}, reference).maximum,
              0.5, 1e-6);
  EXPECT_NEAR(relative_difference(std::vector<float>{0.5f, -1.0f, 1.0f, -1.0f}, reference).maximum,
              0.5, 1e-6);
  EXPECT_EQ(relative_difference(std::vector<float>{1.0f, NAN, 1.0f, -1.0f}, reference).maximum,
            INFINITY);
  EXPECT_EQ(
      relative_difference(std::vector<float>{1.0f, -1.0f, -INFINITY, -1.0f}, reference).maximum,
      INFINITY);
}

TEST(GoldenFolders, CoverEveryFamily) {
  EXPECT_GE(golden_dirs().size(), 14u) << "build/goldens: run tools/golden_weights.py";
}

}  // namespace
}  // namespace forerun
