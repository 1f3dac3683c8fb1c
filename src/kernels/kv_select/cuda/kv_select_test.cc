#include "kernels/kv_select/cuda/kv_select.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status_macros.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"

namespace forerun::cuda {
namespace {

struct Case {
  int num_heads, kv_heads, head_dim;
  int observers, first_weighed, weighed_step, tokens, chosen, pooling;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.num_heads << " heads, " << c.kv_heads << " of KV, of " << c.head_dim << ", "
             << c.observers << " observers of " << c.first_weighed
             << " tokens, each further one of " << c.weighed_step << " more, " << c.chosen << " of "
             << c.tokens << ", pooling " << c.pooling;
}

class KvSelectCuda : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
    ASSERT_TRUE(prepare_kv_select_cuda().ok());
    auto stream = Stream::create();
    ASSERT_TRUE(stream.ok());
    stream_.emplace(std::move(*stream));
    fill();
  }

  // Fills the cache. Queries resemble some of the keys; keys and values are random and all
  // different. Slots past the last token that any observer attends to hold NaN.
  void fill() {
    const Case& c = GetParam();
    kv_.num_kv_heads = c.kv_heads;
    kv_.head_dim = c.head_dim;
    kv_.block_stride_bytes = kv_.layer_bytes() + 1024;
    padded_ = padded_head_dim_cuda(c.head_dim);
    weighed_ = c.first_weighed + c.weighed_step * (c.observers - 1);
    const int table_blocks = (weighed_ + 63) / 64;
    const int all_blocks = table_blocks + c.chosen / 64;
    std::vector<int32_t> places(static_cast<size_t>(all_blocks));
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), random_);
    table_.assign(places.begin(), places.begin() + table_blocks);
    blocks_.assign(places.begin() + table_blocks, places.end());
    cache_.assign(static_cast<size_t>(all_blocks * kv_.block_stride_bytes), std::byte{0xff});
    keys_.resize(static_cast<size_t>(weighed_ * c.kv_heads * c.head_dim));
    std::normal_distribution<float> normal;
    for (float& key : keys_) key = to_float(to_bf16(normal(random_)));
    for (int token = 0; token < weighed_; ++token) {
      for (int head = 0; head < c.kv_heads; ++head) {
        for (int dim = 0; dim < padded_; ++dim) {
          const bool real = dim < c.head_dim;
          const float value = to_float(to_bf16(normal(random_)));
          *element(table_, token, head, dim, false) = to_bf16(real ? key(token, head, dim) : 0.0f);
          *element(table_, token, head, dim, true) = to_bf16(real ? value : 0.0f);
        }
      }
    }
    queries_.assign(static_cast<size_t>(c.observers * c.num_heads * padded_), bf16{});
    std::uniform_int_distribution<int> any(0, c.tokens - 1);
    for (int observer = 0; observer < c.observers; ++observer) {
      for (int head = 0; head < c.num_heads; ++head) {
        const int looks_for = any(random_);
        for (int dim = 0; dim < c.head_dim; ++dim) {
          query(observer, head)[dim] =
              to_bf16(0.4f * key(looks_for, head / (c.num_heads / c.kv_heads), dim) +
                      0.3f * normal(random_));
        }
      }
    }
  }
  float key(int token, int head, int dim) const {
    const Case& c = GetParam();
    return keys_[static_cast<size_t>((token * c.kv_heads + head) * c.head_dim + dim)];
  }
  bf16* query(int observer, int head) {
    return queries_.data() + (observer * GetParam().num_heads + head) * padded_;
  }
  // Implements the layout of attention/cuda/kv_layout.h independently.
  bf16* element(const std::vector<int32_t>& table, int slot, int head, int dim, bool value) {
    const int piece = dim / 8;
    const int row = slot % 64;
    std::byte* const tile = cache_.data() +
                            table[static_cast<size_t>(slot / 64)] * kv_.block_stride_bytes +
                            ((value ? kv_.num_kv_heads : 0) + head) * kv_.tile_bytes();
    std::byte* const at = tile + piece / 8 * 64 * 128 + row * 128 + ((piece ^ row) & 7) * 16;
    return reinterpret_cast<bf16*>(at) + dim % 8;
  }

  // Returns [kv_head][tokens].
  std::vector<double> pooled_reference() {
    const Case& c = GetParam();
    const int group = c.num_heads / c.kv_heads;
    std::vector<double> importance(static_cast<size_t>(c.kv_heads * c.tokens));
    std::vector<double> weights;
    for (int observer = 0; observer < c.observers; ++observer) {
      for (int head = 0; head < c.num_heads; ++head) {
        weights.assign(static_cast<size_t>(c.first_weighed + c.weighed_step * observer), 0.0);
        for (size_t token = 0; token < weights.size(); ++token) {
          for (int dim = 0; dim < c.head_dim; ++dim) {
            weights[token] += static_cast<double>(to_float(query(observer, head)[dim])) *
                              key(static_cast<int>(token), head / group, dim);
          }
          weights[token] /= std::sqrt(c.head_dim);
        }
        const double most = *std::max_element(weights.begin(), weights.end());
        double sum = 0.0;
        for (double& weight : weights) sum += weight = std::exp(weight - most);
        for (int token = 0; token < c.tokens; ++token) {
          importance[static_cast<size_t>(head / group * c.tokens + token)] +=
              weights[static_cast<size_t>(token)] / sum;
        }
      }
    }
    std::vector<double> pooled(importance.size());
    for (int head = 0; head < c.kv_heads; ++head) {
      for (int token = 0; token < c.tokens; ++token) {
        for (int other = std::max(0, token - c.pooling / 2);
             other <= std::min(c.tokens - 1, token + c.pooling / 2); ++other) {
          pooled[static_cast<size_t>(head * c.tokens + token)] +=
              importance[static_cast<size_t>(head * c.tokens + other)];
        }
      }
    }
    return pooled;
  }

  template <class T>
  DeviceBuffer to_device(const std::vector<T>& values) {
    auto buffer = DeviceBuffer::allocate(std::span(values).size_bytes(), "a test's data");
    EXPECT_TRUE(buffer.ok());
    EXPECT_TRUE(buffer->upload(std::as_bytes(std::span(values))).ok());
    return std::move(*buffer);
  }
  // Runs the selection and copies the GPU's cache back.
  Status select() {
    const Case& c = GetParam();
    const DeviceBuffer cache = to_device(cache_);
    const DeviceBuffer queries = to_device(queries_);
    const DeviceBuffer table = to_device(table_);
    const DeviceBuffer blocks = to_device(blocks_);
    const DeviceBuffer scratch = to_device(std::vector<std::byte>(
        kv_select_scratch_bytes(c.observers, weighed_, c.num_heads, c.kv_heads), std::byte{0xff}));
    PagedKvCuda kv = kv_;
    kv.data = cache.data();
    FORERUN_RETURN_IF_ERROR(kv_select_cuda({.q = queries.as<__nv_bfloat16>(),
                                            .num_heads = c.num_heads,
                                            .observers = c.observers,
                                            .first_weighed = c.first_weighed,
                                            .weighed_step = c.weighed_step,
                                            .block_table = table.as<int32_t>(),
                                            .tokens = c.tokens,
                                            .chosen = c.chosen,
                                            .pooling = c.pooling,
                                            .blocks = blocks.as<int32_t>(),
                                            .kv = kv,
                                            .scratch = scratch.data()},
                                           stream_->get()));
    FORERUN_RETURN_IF_ERROR(stream_->synchronize());
    return cache.download(std::span(cache_));
  }

  std::mt19937 random_{7};
  std::optional<Stream> stream_;
  PagedKvCuda kv_;
  int padded_ = 0;
  int weighed_ = 0;  // tokens that the last observer attends to
  std::vector<int32_t> table_, blocks_;
  std::vector<std::byte> cache_;
  std::vector<float> keys_;
  std::vector<bf16> queries_;
};

TEST_P(KvSelectCuda, GathersTheMostImportantTokensInTheirOrder) {
  const Case& c = GetParam();
  const std::vector<double> pooled = pooled_reference();
  ASSERT_TRUE(select().ok());
  const std::vector<std::byte> first = cache_;
  for (int head = 0; head < c.kv_heads; ++head) {
    const auto row_of = [&](const std::vector<int32_t>& where, int slot, bool value) {
      std::string row;
      for (int dim = 0; dim < padded_; ++dim) {
        const bf16* const at = element(where, slot, head, dim, value);
        row.append(reinterpret_cast<const char*>(at), sizeof(bf16));
      }
      return row;
    };
    std::map<std::string, int> tokens;
    for (int token = 0; token < c.tokens; ++token) {
      tokens.emplace(row_of(table_, token, false) + row_of(table_, token, true), token);
    }
    ASSERT_EQ(tokens.size(), static_cast<size_t>(c.tokens));
    std::vector<bool> is_chosen(static_cast<size_t>(c.tokens));
    int before = -1;
    for (int place = 0; place < c.chosen; ++place) {
      const auto found = tokens.find(row_of(blocks_, place, false) + row_of(blocks_, place, true));
      ASSERT_NE(found, tokens.end()) << "place " << place << " of head " << head;
      ASSERT_GT(found->second, before);
      before = found->second;
      is_chosen[static_cast<size_t>(before)] = true;
    }
    std::vector<double> sorted(pooled.begin() + head * c.tokens,
                               pooled.begin() + (head + 1) * c.tokens);
    std::sort(sorted.rbegin(), sorted.rend());
    const double least = sorted[static_cast<size_t>(c.chosen - 1)];
    for (int token = 0; token < c.tokens; ++token) {
      const double value = pooled[static_cast<size_t>(head * c.tokens + token)];
      // Tokens near the threshold may be selected or not, since the device sums in f32.
      if (std::abs(value - least) <= 1e-3 * least) continue;
      EXPECT_EQ(is_chosen[static_cast<size_t>(token)], value > least) << token;
    }
  }
  ASSERT_TRUE(select().ok());
  EXPECT_EQ(std::memcmp(cache_.data(), first.data(), first.size()), 0) << "once more";
}

INSTANTIATE_TEST_SUITE_P(Shapes, KvSelectCuda,
                         ::testing::Values(Case{32, 8, 128, 32, 3000, 1, 2968, 512, 5},
                                           Case{32, 8, 128, 32, 700, 1, 640, 640, 5},
                                           Case{32, 8, 128, 1, 3000, 0, 2944, 512, 1},
                                           Case{32, 8, 128, 5, 2003, 0, 1984, 448, 5},
                                           Case{8, 8, 64, 5, 300, 1, 290, 64, 1},
                                           Case{14, 2, 64, 32, 1500, 1, 1460, 256, 7},
                                           Case{12, 4, 96, 17, 1025, 1, 1025, 128, 5},
                                           Case{12, 4, 96, 17, 1024, 0, 1024, 128, 1},
                                           Case{4, 1, 256, 32, 900, 1, 868, 192, 3}));

TEST(KvSelectCudaCalls, NumbersThatDoNotFitAreRefused) {
  KvSelectCallCuda call;
  call.num_heads = 8;
  call.observers = 4;
  call.first_weighed = 100;
  call.tokens = 96;
  call.chosen = 64;
  call.kv.num_kv_heads = 8;
  call.kv.head_dim = 64;
  const auto refused = [](const KvSelectCallCuda& wrong, const std::string& what) {
    const Status status = kv_select_cuda(wrong, nullptr);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
  };
  KvSelectCallCuda wrong = call;
  wrong.tokens = 101;
  refused(wrong, "accepted: 1 to 100");
  wrong = call;
  wrong.chosen = 65;
  refused(wrong, "multiples of 64 up to 96");
  wrong = call;
  wrong.pooling = 4;
  refused(wrong, "odd");
  wrong = call;
  wrong.observers = 0;
  refused(wrong, "0 observers");
}

}  // namespace
}  // namespace forerun::cuda
