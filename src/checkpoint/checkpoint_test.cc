#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <string>

#include "base/log.h"
#include "checkpoint/checkpoint_summary.h"
#include "checkpoint/testing.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

ToySpec tiny(const std::string& family) {
  ToySpec spec;
  spec.family = family;
  spec.hidden_size = 16;
  spec.intermediate_size = 24;
  spec.num_heads = 2;
  spec.num_kv_heads = 1;
  spec.vocab_size = 40;
  spec.awq_group_size = 8;
  return spec;
}

Checkpoint must_open(const fs::path& dir) {
  auto checkpoint = Checkpoint::open(dir);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  return std::move(checkpoint).value();
}

// Returns the tensor with this name in the file, or null.
const RawTensor* tensor_in_file(const Checkpoint& checkpoint, const std::string& name) {
  for (const RawTensor& tensor : checkpoint.tensors()) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

// Writes a toy checkpoint after `spoil_tensors` has changed its tensors and `spoil_files` its
// files. Expects a refusal in one line with `code` and all of the parts.
void expect_refused(const ToySpec& spec, StatusCode code, const std::vector<std::string>& parts,
                    const std::function<void(std::vector<StoredTensor>&)>& spoil_tensors,
                    const std::function<void(const fs::path&)>& spoil_files = nullptr) {
  TempDir temp;
  ASSERT_TRUE(write_toy_checkpoint(temp.path(), spec).ok());
  ASSERT_TRUE(Checkpoint::open(temp.path()).ok()) << "sound before it is spoiled";
  if (spoil_tensors) {
    auto tensors = toy_tensors(spec);
    spoil_tensors(tensors);
    ASSERT_TRUE(write_safetensors(temp.path() / "model.safetensors", tensors).ok());
  }
  if (spoil_files) spoil_files(temp.path());
  const auto checkpoint = Checkpoint::open(temp.path());
  ASSERT_FALSE(checkpoint.ok()) << testing::PrintToString(parts);
  const Status status = checkpoint.status();
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos)
        << status.message() << "\n lacks " << part;
  }
}

StoredTensor& tensor_named(std::vector<StoredTensor>& tensors, std::string_view name) {
  for (StoredTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << name;
  return tensors.front();
}

void erase_named(std::vector<StoredTensor>& tensors, const std::string& name) {
  ASSERT_EQ(std::erase_if(tensors, [&](const StoredTensor& t) { return t.name == name; }), 1u);
}

TEST(Checkpoint, EveryFamilyDTypeAndQuantizationRoundTrips) {
  for (const char* family : {"llama", "qwen2", "qwen3", "mistral"}) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      for (const auto quantization : {ToySpec::Quantization::kNone, ToySpec::Quantization::kAwq,
                                      ToySpec::Quantization::kAwqDequantized}) {
        ToySpec spec = tiny(family);
        spec.dtype = dtype;
        spec.quantization = quantization;
        spec.attention_bias = spec.family == "llama" || spec.family == "qwen3";
        spec.mlp_bias = spec.family == "llama";
        spec.head_dim = 16;
        TempDir temp;
        ASSERT_TRUE(write_toy_checkpoint(temp.path(), spec).ok());
        const Checkpoint checkpoint = must_open(temp.path());
        const auto written = toy_tensors(spec);
        ASSERT_EQ(checkpoint.tensors().size(), written.size());
        for (const StoredTensor& expected : written) {
          const RawTensor* tensor = tensor_in_file(checkpoint, expected.name);
          ASSERT_NE(tensor, nullptr) << expected.name;
          EXPECT_EQ(tensor->shape, expected.shape);
          ASSERT_EQ(tensor->bytes.size(), expected.bytes.size());
          EXPECT_EQ(std::memcmp(tensor->bytes.data(), expected.bytes.data(), expected.bytes.size()),
                    0);
        }
        EXPECT_EQ(checkpoint.config().dtype, dtype);
      }
    }
  }
}

TEST(Checkpoint, ShardsBareNamesTiedHeadsAndSymbolicLinks) {
  ToySpec spec = tiny("qwen3");
  spec.num_shards = 3;
  spec.bare_names = true;
  spec.tied = true;
  TempDir blobs, temp;
  ASSERT_TRUE(write_toy_checkpoint(blobs.path(), spec).ok());
  for (const auto& entry : fs::directory_iterator(blobs.path())) {
    fs::create_symlink(entry.path(), temp.path() / entry.path().filename());
  }
  Checkpoint checkpoint = must_open(temp.path());
  const RawTensor* embedding = checkpoint.weight({ModuleKind::kEmbedding});
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->name, "embed_tokens.weight");
  EXPECT_EQ(checkpoint.weight({ModuleKind::kHead}), nullptr);
  const Checkpoint moved = std::move(checkpoint);
  EXPECT_EQ(moved.weight({ModuleKind::kEmbedding}), embedding);
  EXPECT_EQ(moved.path(), temp.path());
}

TEST(Checkpoint, ReleasedPagesReadTheSame) {
  TempDir temp;
  ToySpec spec = tiny("llama");
  spec.vocab_size = 4096;
  ASSERT_TRUE(write_toy_checkpoint(temp.path(), spec).ok());
  const Checkpoint checkpoint = must_open(temp.path());
  const RawTensor& tensor = *checkpoint.weight({ModuleKind::kEmbedding});
  const std::vector<std::byte> before(tensor.bytes.begin(), tensor.bytes.end());
  checkpoint.release_pages(tensor);
  checkpoint.prefetch_pages(tensor);
  EXPECT_EQ(std::memcmp(before.data(), tensor.bytes.data(), before.size()), 0);
}

TEST(Checkpoint, ExtraTensorsThatMeanNothingAreIgnored) {
  ToySpec spec = tiny("llama");
  spec.tied = true;
  TempDir temp;
  ASSERT_TRUE(write_toy_checkpoint(temp.path(), spec).ok());
  auto tensors = toy_tensors(spec);
  const StoredTensor embedding = tensor_named(tensors, "model.embed_tokens.weight");
  tensors.push_back(embedding);
  tensors.back().name = "lm_head.weight";  // a copy of the tied head
  tensors.push_back(
      {"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {1}, std::vector<std::byte>(4)});
  tensors.push_back({"model.rotary_emb.inv_freq", "F64", {1}, std::vector<std::byte>(8)});
  tensors.push_back({"rotary_emb.inv_freq", "F32", {1}, std::vector<std::byte>(4)});
  ASSERT_TRUE(write_safetensors(temp.path() / "model.safetensors", tensors).ok());
  const Checkpoint checkpoint = must_open(temp.path());
  EXPECT_EQ(tensor_in_file(checkpoint, "model.rotary_emb.inv_freq"), nullptr);
  const CheckpointSummary summary = summarize(checkpoint);
  EXPECT_EQ(summary.ignored_bytes, static_cast<int64_t>(embedding.bytes.size()) + 8);
}

// A tensor outside of layers would change the model's computation, too.
TEST(Checkpoint, TensorsThatNothingReadsAreRefused) {
  for (const bool tied : {false, true}) {
    ToySpec spec = tiny("llama");
    spec.tied = tied;
    for (const std::string name :
         {"lm_head.bias", "model.norm.bias", "lm_head.weight_scale", "lm_head.weight_packed",
          "model.embed_tokens.weight_scale", "score.weight", "visual.x", "d2t", "t2d"}) {
      for (const auto& [dtype, bytes] :
           {std::pair("F32", size_t{4}), std::pair("F64", size_t{8})}) {
        expect_refused(spec, StatusCode::kCorrupt,
                       {"model.safetensors: tensor \"" + name +
                        "\": found a tensor that config.json "
                        "gives no place; accepted: the tensors of 2 layers of llama"},
                       [&, dtype = dtype, bytes = bytes](auto& tensors) {
                         tensors.push_back({name, dtype, {1}, std::vector<std::byte>(bytes)});
                       });
      }
    }
  }
}

// If config.json has "tie_word_embeddings": true beside another head, transformers uses the head.
TEST(Checkpoint, AHeadThatDiffersFromTheEmbeddingIsUsed) {
  ToySpec spec = tiny("llama");
  spec.tied = true;
  TempDir temp;
  ASSERT_TRUE(write_toy_checkpoint(temp.path(), spec).ok());
  auto tensors = toy_tensors(spec);
  tensors.push_back(tensor_named(tensors, "model.embed_tokens.weight"));
  tensors.back().name = "lm_head.weight";
  const auto is_tied = [&] {
    EXPECT_TRUE(write_safetensors(temp.path() / "model.safetensors", tensors).ok());
    return must_open(temp.path()).config().tied_embeddings;
  };
  EXPECT_TRUE(is_tied());
  tensors.back().bytes.back() ^= std::byte{1};
  EXPECT_FALSE(is_tied());
  tensors.back().shape = {20, 32};
  ASSERT_TRUE(write_safetensors(temp.path() / "model.safetensors", tensors).ok());
  const Status refused = Checkpoint::open(temp.path()).status();
  EXPECT_EQ(refused.code(), StatusCode::kCorrupt);
  EXPECT_NE(refused.message().find("\"lm_head.weight\": found shape [20][32]"), std::string::npos)
      << refused.message();
}

TEST(Checkpoint, UnalignedTensorsAreReadable) {
  ToySpec spec = tiny("llama");
  TempDir temp;
  ASSERT_TRUE(write_toy_checkpoint(temp.path(), spec).ok());
  auto tensors = toy_tensors(spec);
  const RawTensor* aligned = nullptr;
  {
    const Checkpoint checkpoint = must_open(temp.path());
    aligned = checkpoint.weight({ModuleKind::kFinalNorm});
    EXPECT_NE(aligned_elements<float>(*aligned), nullptr);
    EXPECT_EQ(aligned_elements<uint16_t>(*aligned), nullptr) << "another size";
  }
  tensors.insert(tensors.begin(), {"masked_bias", "U8", {1}, std::vector<std::byte>(1)});
  ASSERT_TRUE(write_safetensors(temp.path() / "model.safetensors", tensors).ok());
  const Checkpoint checkpoint = must_open(temp.path());
  const RawTensor& tensor = *checkpoint.weight({ModuleKind::kFinalNorm});
  EXPECT_EQ(aligned_elements<float>(tensor), nullptr);
  const StoredTensor& written = tensor_named(tensors, "model.norm.weight");
  EXPECT_EQ(std::memcmp(tensor.bytes.data(), written.bytes.data(), written.bytes.size()), 0);
}

TEST(Checkpoint, TensorsThatDisagreeWithTheConfig) {
  const ToySpec plain = tiny("llama");
  expect_refused(plain, StatusCode::kCorrupt,
                 {"model.safetensors: tensor \"model.layers.1.mlp.up_proj.weight\"",
                  "found shape [12][32]", "accepted: [24][16], as config.json says"},
                 [](auto& tensors) {
                   tensor_named(tensors, "model.layers.1.mlp.up_proj.weight").shape = {12, 32};
                 });
  expect_refused(plain, StatusCode::kCorrupt,
                 {"tensor \"model.norm.weight\"", "found i32", "accepted: f32, bf16 or f16"},
                 [](auto& tensors) { tensor_named(tensors, "model.norm.weight").dtype = "I32"; });
  expect_refused(plain, StatusCode::kCorrupt, {"tensor \"model.embed_tokens.weight\"", "found F64"},
                 [](auto& tensors) {
                   StoredTensor& tensor = tensor_named(tensors, "model.embed_tokens.weight");
                   tensor.dtype = "F64";
                   tensor.bytes.resize(tensor.bytes.size() * 2);
                 });
  expect_refused(
      plain, StatusCode::kNotFound,
      {"tensor \"model.layers.0.self_attn.o_proj.weight\": not found; accepted: one of shape ["},
      [](auto& tensors) { erase_named(tensors, "model.layers.0.self_attn.o_proj.weight"); });
  expect_refused(plain, StatusCode::kNotFound,
                 {"\"lm_head.weight\": not found", "tie_word_embeddings"},
                 [](auto& tensors) { erase_named(tensors, "lm_head.weight"); });
  expect_refused(
      plain, StatusCode::kCorrupt,
      {"tensor \"model.layers.0.self_attn.q_proj.bias\"", "gives no place"}, [](auto& tensors) {
        tensors.push_back(
            {"model.layers.0.self_attn.q_proj.bias", "F32", {16}, std::vector<std::byte>(64)});
      });
  expect_refused(
      tiny("qwen2"), StatusCode::kNotFound, {"self_attn.k_proj.bias\": not found"},
      [](auto& tensors) { erase_named(tensors, "model.layers.1.self_attn.k_proj.bias"); });
  expect_refused(
      tiny("qwen3"), StatusCode::kNotFound, {"self_attn.k_norm.weight\": not found"},
      [](auto& tensors) { erase_named(tensors, "model.layers.1.self_attn.k_norm.weight"); });
}

TEST(Checkpoint, DenseWeightsUnderAQuantizationConfigAreRefused) {
  ToySpec dense = tiny("llama");
  ToySpec awq = dense;
  awq.quantization = ToySpec::Quantization::kAwq;
  const std::string config = toy_config_json(awq);
  expect_refused(dense, StatusCode::kCorrupt,
                 {"\"model.layers.0.self_attn.q_proj.weight\"",
                  "found f32 weights, though config.json describes AWQ", "modules_to_not_convert"},
                 nullptr, [&](const fs::path& dir) {
                   ASSERT_TRUE(write_text(dir / "config.json", config).ok());
                 });
  // Layers that the config leaves out may be dense.
  TempDir temp;
  ASSERT_TRUE(write_toy_checkpoint(temp.path(), awq).ok());
  auto tensors = toy_tensors(awq);
  const std::string module = "model.layers.1.mlp.down_proj";
  for (const char* part : {".qweight", ".qzeros", ".scales"}) erase_named(tensors, module + part);
  const auto plain = toy_tensors(dense);
  for (const StoredTensor& tensor : plain) {
    if (tensor.name == module + ".weight") tensors.push_back(tensor);
  }
  ASSERT_TRUE(write_safetensors(temp.path() / "model.safetensors", tensors).ok());
  EXPECT_FALSE(Checkpoint::open(temp.path()).ok());
  std::string left_out = config;
  const std::string none = "\"modules_to_not_convert\":null";
  std::erase(left_out, ' ');
  const size_t at = left_out.find(none);
  ASSERT_NE(at, std::string::npos) << left_out;
  left_out.replace(at, none.size(), "\"modules_to_not_convert\":[\"layers.1.mlp.down_proj\"]");
  ASSERT_TRUE(write_text(temp.path() / "config.json", left_out).ok());
  const auto opened = Checkpoint::open(temp.path());
  EXPECT_TRUE(opened.ok()) << opened.status().message();
}

TEST(Checkpoint, AwqPartsThatDisagree) {
  ToySpec awq = tiny("llama");
  awq.quantization = ToySpec::Quantization::kAwq;
  const std::string module = "model.layers.0.mlp.down_proj";
  expect_refused(
      awq, StatusCode::kCorrupt,
      {module + ".qzeros\": not found, though other parts of the layer are; accepted: all "
                "parts of AWQ"},
      [&](auto& tensors) { erase_named(tensors, module + ".qzeros"); });
  expect_refused(awq, StatusCode::kCorrupt,
                 {module + ".qweight", "found shape [12][4]", "accepted: [24][2]"},
                 [&](auto& tensors) {
                   tensor_named(tensors, module + ".qweight").shape = {12, 4};
                 });
  expect_refused(awq, StatusCode::kCorrupt, {module + ".scales", "found i16", "f16, bf16, f32"},
                 [&](auto& tensors) { tensor_named(tensors, module + ".scales").dtype = "I16"; });
  expect_refused(awq, StatusCode::kNotFound, {module + ".weight\": not found, nor"},
                 [&](auto& tensors) {
                   for (const char* part : {".qweight", ".qzeros", ".scales"}) {
                     erase_named(tensors, module + part);
                   }
                 });
  expect_refused(
      awq, StatusCode::kUnsupported, {"lm_head.qweight", "found a quantized head"},
      [](auto& tensors) {
        erase_named(tensors, "lm_head.weight");
        tensors.push_back({"lm_head.qweight", "I32", {16, 5}, std::vector<std::byte>(320)});
        tensors.push_back({"lm_head.qzeros", "I32", {2, 5}, std::vector<std::byte>(40)});
        tensors.push_back({"lm_head.scales", "F16", {2, 40}, std::vector<std::byte>(160)});
      });
  // The description says groups of 8, or says nothing at all.
  const auto describe_as = [&](int32_t group_size) {
    return [&, group_size](const fs::path& dir) {
      ToySpec other = awq;
      other.awq_group_size = group_size;
      if (group_size == 0) other.quantization = ToySpec::Quantization::kNone;
      ASSERT_TRUE(write_text(dir / "config.json", toy_config_json(other)).ok());
    };
  };
  expect_refused(awq, StatusCode::kCorrupt, {".qzeros", "group size 4"}, nullptr, describe_as(4));
  expect_refused(awq, StatusCode::kCorrupt, {"16 input channels", "group_size (5)"}, nullptr,
                 describe_as(5));
  expect_refused(awq, StatusCode::kNotFound, {"no quantization_config"}, nullptr, describe_as(0));
}

TEST(Checkpoint, OldAwqDescriptionBesideTheConfig) {
  ToySpec spec = tiny("llama");
  spec.quantization = ToySpec::Quantization::kAwq;
  TempDir temp;
  ASSERT_TRUE(write_toy_checkpoint(temp.path(), spec).ok());
  ToySpec undescribed = spec;
  undescribed.quantization = ToySpec::Quantization::kNone;
  ASSERT_TRUE(write_text(temp.path() / "config.json", toy_config_json(undescribed)).ok());
  EXPECT_FALSE(Checkpoint::open(temp.path()).ok());
  ASSERT_TRUE(write_text(temp.path() / "quant_config.json",
                         R"({"zero_point":true,"q_group_size":8,"w_bit":4,"version":"GEMM"})")
                  .ok());
  EXPECT_EQ(must_open(temp.path()).config().quantization.schemes.at(0).group_size, 8);
}

TEST(Checkpoint, AnOldDescriptionMayNotContradictTheConfig) {
  ToySpec spec = tiny("llama");
  spec.quantization = ToySpec::Quantization::kAwq;
  TempDir temp;
  ASSERT_TRUE(write_toy_checkpoint(temp.path(), spec).ok());
  const auto opened_with = [&](const char* file, const char* text) {
    EXPECT_TRUE(write_text(temp.path() / file, text).ok());
    const Status status = Checkpoint::open(temp.path()).status();
    fs::remove(temp.path() / file);
    return status;
  };
  for (const char* const same :
       {R"({"zero_point":true,"q_group_size":8,"w_bit":4,"version":"GEMM"})",
        R"({"bits":4,"group_size":8,"damp_percent":0.01})", "{}", "no JSON"}) {
    for (const char* const file : {"quant_config.json", "quantize_config.json"}) {
      EXPECT_TRUE(opened_with(file, same).ok()) << same;
    }
  }
  EXPECT_EQ(opened_with("quantize_config.json", R"({"bits":4,"group_size":64})").message(),
            (temp.path() / "quantize_config.json").string() +
                ": field \"group_size\": found 64; accepted: 8, as quantization_config of "
                "config.json beside it says, or no quantize_config.json");
  EXPECT_NE(opened_with("quant_config.json", R"({"w_bit":8})")
                .message()
                .find("quant_config.json: field \"w_bit\": found 8; accepted: 4"),
            std::string::npos);
  EXPECT_FALSE(opened_with("quant_config.json", R"({"version":"gemv"})").ok());
}

TEST(Checkpoint, BrokenFiles) {
  const ToySpec spec = tiny("llama");
  expect_refused(spec, StatusCode::kCorrupt, {"model.safetensors: tensor", "truncated"}, nullptr,
                 [](const fs::path& dir) {
                   const fs::path file = dir / "model.safetensors";
                   fs::resize_file(file, fs::file_size(file) - 1);
                 });
  expect_refused(spec, StatusCode::kCorrupt, {"model.safetensors: truncated: found 0 bytes"},
                 nullptr,
                 [](const fs::path& dir) { fs::resize_file(dir / "model.safetensors", 0); });
  expect_refused(spec, StatusCode::kCorrupt, {"model.safetensors", "Git LFS pointer"}, nullptr,
                 [](const fs::path& dir) {
                   ASSERT_TRUE(write_text(dir / "model.safetensors",
                                          "version https://git-lfs.github.com/spec/v1\noid 1\n")
                                   .ok());
                 });
  expect_refused(spec, StatusCode::kNotFound, {"config.json: no such file"}, nullptr,
                 [](const fs::path& dir) { fs::remove(dir / "config.json"); });
  expect_refused(spec, StatusCode::kNotFound, {"found neither", "model.safetensors.index.json"},
                 nullptr, [](const fs::path& dir) { fs::remove(dir / "model.safetensors"); });
  expect_refused(spec, StatusCode::kNotFound, {"symbolic link", "interrupted"}, nullptr,
                 [](const fs::path& dir) {
                   fs::remove(dir / "model.safetensors");
                   fs::create_symlink("gone", dir / "model.safetensors");
                 });
  expect_refused(
      spec, StatusCode::kUnsupported, {"architectures", "\"XForCausalLM\""}, nullptr,
      [](const fs::path& dir) {
        ASSERT_TRUE(write_text(dir / "config.json", R"({"architectures":["XForCausalLM"]})").ok());
      });
}

TEST(Checkpoint, BrokenShards) {
  ToySpec spec = tiny("llama");
  spec.num_shards = 2;
  const auto write_index = [](const std::string& shard) {
    return [shard](const fs::path& dir) {
      ASSERT_TRUE(write_text(dir / "model.safetensors.index.json",
                             R"({"weight_map":{"model.norm.weight":")" + shard + "\"}}")
                      .ok());
    };
  };
  for (const char* outside : {"../x.safetensors", "/etc/passwd", "a/../../x", ""}) {
    expect_refused(spec, StatusCode::kCorrupt,
                   {"weight_map.model.norm.weight", "a file in the same directory"}, nullptr,
                   write_index(outside));
  }
  expect_refused(spec, StatusCode::kNotFound,
                 {"index.json: shard", "x.safetensors: No such file", "accepted: every shard"},
                 nullptr, write_index("x.safetensors"));
  expect_refused(spec, StatusCode::kCorrupt,
                 {"model-00001-of-00002.safetensors: tensor \"model.norm.weight\": not found"},
                 nullptr, write_index("model-00001-of-00002.safetensors"));
  expect_refused(spec, StatusCode::kCorrupt, {"found twice"}, nullptr, [](const fs::path& dir) {
    ASSERT_TRUE(
        write_text(dir / "model.safetensors.index.json", R"({"weight_map":{"a":"x","a":"y"}})")
            .ok());
  });
  expect_refused(spec, StatusCode::kCorrupt, {"weight_map", "found nothing"}, nullptr,
                 [](const fs::path& dir) {
                   ASSERT_TRUE(write_text(dir / "model.safetensors.index.json", "{}").ok());
                 });
  expect_refused(spec, StatusCode::kCorrupt, {"model-00002-of-00002.safetensors", "truncated"},
                 nullptr, [](const fs::path& dir) {
                   const fs::path file = dir / "model-00002-of-00002.safetensors";
                   fs::resize_file(file, fs::file_size(file) / 2);
                 });
}

// The folder is in the state that a merge or a download of another revision leaves behind.
TEST(Checkpoint, AnIndexWinsOverAWholeFile) {
  TempDir temp;
  ToySpec of_index = tiny("llama");
  of_index.num_shards = 2;
  ToySpec whole = tiny("llama");
  whole.seed = 7;
  ASSERT_TRUE(write_toy_checkpoint(temp.path(), whole).ok());
  ASSERT_TRUE(write_toy_checkpoint(temp.path(), of_index).ok());
  ASSERT_TRUE(fs::exists(temp.path() / "model.safetensors"));
  const auto first_weights = [](const Checkpoint& checkpoint) {
    const auto bytes = checkpoint.weight({ModuleKind::kEmbedding})->bytes;
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  TempDir sharded;
  ASSERT_TRUE(write_toy_checkpoint(sharded.path(), of_index).ok());
  std::vector<std::string> log;
  set_log_sink([&log](LogLevel, std::string_view line) { log.emplace_back(line); });
  EXPECT_EQ(first_weights(must_open(temp.path())), first_weights(must_open(sharded.path())));
  set_log_sink(nullptr);
  ASSERT_EQ(log.size(), 1U);
  EXPECT_NE(log[0].find("model.safetensors: left out, model.safetensors.index.json names other"),
            std::string::npos)
      << log[0];
  // If shards are missing, the message gives advice.
  fs::remove(temp.path() / "model-00002-of-00002.safetensors");
  const auto refused = Checkpoint::open(temp.path());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("model-00002-of-00002.safetensors: No such file"),
            std::string::npos);
  EXPECT_NE(refused.status().message().find("remove the index"), std::string::npos);
  fs::remove(temp.path() / "model.safetensors.index.json");
  EXPECT_TRUE(Checkpoint::open(temp.path()).ok());
}

TEST(Checkpoint, OtherFormatsAreRefusedByName) {
  struct Case {
    const char* file;
    bool with_config;
    const char* part;
  };
  const Case cases[] = {
      {"pytorch_model.bin", true, "save_pretrained"},
      {"pytorch_model.bin.index.json", true, "save_pretrained"},
      {"consolidated.safetensors", false, "convert_mistral_weights_to_hf.py"},
      {"consolidated.00.pth", false, "convert_llama_weights_to_hf.py"},
      {"adapter_model.safetensors", false, "merge_and_unload"},
      {"adapter_model.bin", true, "merge_and_unload"},
      {"ggml-model-q4_0.bin", false, "convert_llama_ggml_to_gguf.py"},
      {"tf_model.h5", true, "safetensors"},
      {"model.onnx", false, "safetensors"},
  };
  for (const Case& test : cases) {
    TempDir temp;
    ASSERT_TRUE(write_text(temp.path() / test.file, "x").ok());
    if (test.with_config) {
      ASSERT_TRUE(write_text(temp.path() / "config.json", toy_config_json(tiny("llama"))).ok());
    }
    const auto checkpoint = Checkpoint::open(temp.path());
    ASSERT_FALSE(checkpoint.ok());
    EXPECT_EQ(checkpoint.status().code(), StatusCode::kUnsupported);
    for (const char* part :
         {test.file, test.part, "accepted: a GGUF file, or a Hugging Face directory"}) {
      EXPECT_NE(checkpoint.status().message().find(part), std::string::npos)
          << checkpoint.status().message();
    }
    const auto file = Checkpoint::open(temp.path() / test.file);
    ASSERT_FALSE(file.ok());
    EXPECT_NE(file.status().message().find(test.part), std::string::npos)
        << file.status().message();
  }
  const ToySpec spec = tiny("llama");
  expect_refused(spec, StatusCode::kCorrupt, {"q_proj.weight", "describes GPTQ", "q_proj.qweight"},
                 nullptr, [](const fs::path& dir) {
                   ASSERT_TRUE(write_text(dir / "quantize_config.json", R"({"bits":4})").ok());
                 });
  expect_refused(spec, StatusCode::kNotFound,
                 {"found 2 files of weights (model-00001-of-00002.safetensors to "
                  "model-00002-of-00002.safetensors) without model.safetensors.index.json",
                  "accepted: the index beside them"},
                 nullptr, [](const fs::path& dir) {
                   fs::rename(dir / "model.safetensors", dir / "model-00001-of-00002.safetensors");
                   ASSERT_TRUE(write_text(dir / "model-00002-of-00002.safetensors", "x").ok());
                 });
  expect_refused(spec, StatusCode::kUnsupported, {"hf_quant_config.json", "NVFP4", "take the"},
                 nullptr, [](const fs::path& dir) {
                   ASSERT_TRUE(write_text(dir / "hf_quant_config.json", "{}").ok());
                 });
}

// These files have the fields that transformers writes, in both spellings of config.json.
TEST(Checkpoint, TheGoldensOpen) {
  const fs::path goldens = fs::path(FORERUN_SOURCE_DIR) / "build/goldens";
  if (!fs::exists(goldens)) GTEST_SKIP() << "tools/golden_weights.py has not written them";
  size_t opened = 0;
  for (const auto& entry : fs::directory_iterator(goldens)) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    const auto checkpoint = Checkpoint::open(entry.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    EXPECT_TRUE(read_generation_defaults(entry.path()).ok()) << entry.path();
    ++opened;
  }
  EXPECT_GE(opened, 8u) << "one a family at least";
}

TEST(Checkpoint, TheDemoPairOpens) {
  const fs::path models = fs::path(FORERUN_SOURCE_DIR) / "models";
  const Checkpoint target = must_open(models / "demo-target");
  EXPECT_EQ(target.config().num_layers, 10);
  const CheckpointSummary summary = summarize(target);
  EXPECT_NEAR(static_cast<double>(summary.parameters), 33.7e6, 0.1e6);
  EXPECT_EQ(summary.ignored_bytes, 0);
  ASSERT_EQ(summary.by_precision.size(), 2u);
  EXPECT_EQ(summary.by_precision[0].precision, "awq-int4");
  EXPECT_EQ(summary.by_precision[1].precision, "bf16");
  const Checkpoint draft = must_open(models / "demo-draft");
  EXPECT_NEAR(static_cast<double>(summarize(draft).parameters), 2.8e6, 0.1e6);
  const auto head = Checkpoint::open_draft(models / "demo-head");
  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_TRUE(fit_eagle3(head->config(), target.config()).ok());
  EXPECT_NEAR(static_cast<double>(summarize(*head).parameters), 1.9e6, 0.1e6);
}

}  // namespace
}  // namespace forerun
