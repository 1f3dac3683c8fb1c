// Checks every layout and option: small files of toy_layouts.h must be read as their formulas say.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_summary.h"
#include "checkpoint/float_tensor.h"
#include "checkpoint/layouts/name_pattern.h"
#include "checkpoint/layouts/toy_layouts.h"
#include "checkpoint/layouts/weight_layout.h"
#include "checkpoint/layouts/weight_parts.h"
#include "checkpoint/modules.h"
#include "checkpoint/testing.h"

namespace forerun {
namespace {

// clang-format off
#define CT(format, weights) R"({"quant_method":"compressed-tensors","format":")" format \
  R"(","ignore":["lm_head"],"config_groups":{"group_0":{"targets":["Linear"],"weights":{)" weights "}}}}"
// clang-format on

ToySpec layout_spec(const ToyLayout& layout) {
  ToySpec spec;  // 192 and 320: neither is a multiple of 128
  spec.hidden_size = 192;
  spec.intermediate_size = 320;
  spec.num_heads = 2;
  spec.num_kv_heads = 1;
  spec.vocab_size = 32;
  spec.num_layers = 1;
  spec.layout = &layout;
  return spec;
}

constexpr ModuleKind kLinearKinds[] = {ModuleKind::kQ,   ModuleKind::kK,    ModuleKind::kV,
                                       ModuleKind::kO,   ModuleKind::kGate, ModuleKind::kUp,
                                       ModuleKind::kDown};

// Returns the tensors of the toy checkpoint with its linear layers in the layout.
std::vector<StoredTensor> layout_tensors(const ToyLayout& layout) {
  return toy_tensors(layout_spec(layout));
}

std::vector<StoredTensor> plain_tensors() {
  ToySpec spec = layout_spec(toy_layouts().front());
  spec.layout = nullptr;
  return toy_tensors(spec);
}

std::string config_with(const std::string& quantization) {
  ToySpec spec = layout_spec(toy_layouts().front());
  spec.layout = nullptr;
  std::string config = toy_config_json(spec);
  config.erase(config.rfind('}'));
  return config + ",\"quantization_config\":" + quantization + "}";
}

Result<Checkpoint> open_with(const TempDir& dir, const std::vector<StoredTensor>& tensors,
                             const std::string& quantization) {
  EXPECT_TRUE(write_text(dir.path() / "config.json", config_with(quantization)).ok());
  EXPECT_TRUE(write_safetensors(dir.path() / "model.safetensors", tensors).ok());
  return Checkpoint::open(dir.path());
}

bool same(float left, float right) {
  return std::isnan(left) ? std::isnan(right)
                          : std::bit_cast<uint32_t>(left) == std::bit_cast<uint32_t>(right);
}

void expect_range(const ToyLayer& layer, const RawTensor& tensor, int64_t out, int64_t first,
                  int64_t count) {
  std::vector<float> row(static_cast<size_t>(count));
  widen(tensor, out * layer.in + first, count, row.data());
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(same(row[static_cast<size_t>(i)], layer.value(out, first + i)))
        << layer.layout.name << " " << out << " " << first + i << ": "
        << row[static_cast<size_t>(i)] << " " << layer.value(out, first + i);
  }
}

// Reading many outputs at once must equal reading them one by one.
void expect_equal_rows(const StoredIntegers& range) {
  const int64_t stride = range.ins + 3;
  std::vector<uint8_t> all(static_cast<size_t>(range.outs * stride), 0xff);
  const MatrixView<uint8_t> rows(all.data(), {range.outs, range.ins}, stride);
  range.quants(0, rows);
  std::vector<uint8_t> one(static_cast<size_t>(range.ins));
  for (int64_t out = 0; out < range.outs; ++out) {
    range.quants(out, {one.data(), {1, range.ins}});
    ASSERT_TRUE(std::equal(one.begin(), one.end(), rows.row(out)));
    ASSERT_EQ(rows.row(out)[range.ins], 0xff);
  }
}

// Checks the values that a packer gets from the range.
void expect_integers(const ToyLayer& layer, const WeightParts& parts, int64_t first_out,
                     int64_t last_out, int64_t first_in, int64_t last_in) {
  const auto range = parts.integers(first_out, last_out, first_in, last_in);
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->bits, layer.layout.bits);
  EXPECT_EQ(range->has_zeros, layer.layout.has_zeros && !layer.layout.has_middle_zeros);
  EXPECT_EQ(range->order.empty(), !layer.layout.has_order);
  EXPECT_EQ(range->has_short_scales, layer.layout.bits == 4 || layer.layout.has_short_scales ||
                                         layer.layout.scale_dtype != std::string("F32"));
  ASSERT_EQ(range->ins % range->group, 0);
  std::vector<float> scales(static_cast<size_t>(range->groups()));
  std::vector<int16_t> zeros(scales.size());
  std::vector<uint8_t> quants(static_cast<size_t>(range->ins));
  for (int64_t out = 0; out < range->outs; ++out) {
    range->scales(out, scales.data());
    range->zeros(out, zeros.data());
    range->quants(out, {quants.data(), {1, range->ins}});
    for (int64_t i = 0; i < range->ins; ++i) {
      const auto group = static_cast<size_t>(i / range->group);
      const float value =
          static_cast<float>(int{quants[static_cast<size_t>(i)]} - zeros[group]) * scales[group];
      const int64_t in = range->order.empty() ? first_in + i : range->order[static_cast<size_t>(i)];
      ASSERT_TRUE(same(value, layer.value(first_out + out, in))) << layer.layout.name;
    }
  }
  expect_equal_rows(*range);
}

class Layouts : public testing::TestWithParam<ToyLayout> {};

TEST_P(Layouts, DecodesWhatTheFormulaSays) {
  const ToyLayout& test = GetParam();
  TempDir dir;
  const auto checkpoint = open_with(dir, layout_tensors(test), test.config);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  for (const ModuleKind kind : kLinearKinds) {
    const RawTensor* const tensor = checkpoint->weight({kind, 0});
    ASSERT_NE(tensor, nullptr);
    ASSERT_NE(tensor->parts, nullptr);
    EXPECT_EQ(format_name(*tensor), test.expected);
    EXPECT_TRUE(check_readable(*tensor).ok());
    const ToyLayer layer =
        toy_layer(layout_spec(test), weight_name({kind, 0}), tensor->shape[0], tensor->shape[1]);
    for (int64_t out = 0; out < layer.out; out += 3) {
      expect_range(layer, *tensor, out, 0, layer.in);
      expect_range(layer, *tensor, out, 29, 75);
      expect_range(layer, *tensor, out, layer.in - 1, 1);
    }
    const WeightParts& parts = *tensor->parts;
    int64_t bytes = 0;
    for (const ModuleTensor& part : checkpoint->tensors_of({kind, 0})) {
      if (!part.name.ends_with(".bias")) bytes += static_cast<int64_t>(part.tensor->bytes.size());
    }
    EXPECT_EQ(stored_bytes(*tensor), bytes);
    EXPECT_EQ(parts.awq_gemm().has_value(), test.packing == ToyPacking::kGemm);
    if (test.packing == ToyPacking::kFp8) {
      EXPECT_FALSE(parts.integers(0, 8, 0, layer.in).has_value());
      const auto floats = parts.floats();
      ASSERT_TRUE(floats.has_value());
      for (int64_t at = 0; at < layer.out * layer.in; at += 17) {
        const auto code = static_cast<uint8_t>(floats->codes->bytes[static_cast<size_t>(at)]);
        const int64_t out = at / layer.in, in = at % layer.in;
        ASSERT_TRUE(same(to_float(f8_e4m3{code}) * floats->scale(out, in), layer.value(out, in)));
      }
      continue;
    }
    EXPECT_FALSE(parts.floats().has_value());
    expect_integers(layer, parts, 0, layer.out, 0, layer.in);
    if (test.has_order) {
      EXPECT_FALSE(parts.integers(0, 8, 0, 32).has_value());
    } else {  // checks whole groups, cut groups, and a part of one group
      expect_integers(layer, parts, 5, 20, layer.in / 2 / 32 * 32, layer.in);
      expect_integers(layer, parts, 3, 4, 16, 112);
      expect_integers(layer, parts, 3, 4, 40, 56);
    }
  }
  const CheckpointSummary summary = summarize(*checkpoint);
  EXPECT_EQ(summary.by_precision.front().precision, test.expected);
  EXPECT_EQ(summary.by_precision.front().parameters, 192 * (192 * 2 + 96 * 2 + 320 * 3));
}

std::string case_name(const testing::TestParamInfo<ToyLayout>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, Layouts,
                         testing::ValuesIn(toy_layouts().begin(), toy_layouts().end()), case_name);

// A layout without an entry in toy_layouts() would be missing here and in the tests of kernels,
// memory plans and strategies.
TEST(LayoutTable, EachHasAToy) {
  for (const WeightLayout* const layout : weight_layouts()) {
    const bool has_toy =
        std::any_of(toy_layouts().begin(), toy_layouts().end(), [&](const ToyLayout& toy) {
          const TempDir dir;
          EXPECT_TRUE(write_text(dir.path() / "config.json", config_with(toy.config)).ok());
          const auto config = read_model_config(dir.path());
          return config.ok() && config->quantization.schemes.front().layout == layout;
        });
    EXPECT_TRUE(has_toy) << layout->method << " " << layout->label << " "
                         << layout->parts.front().suffix;
  }
}

TEST(ScaledFloats, NanCodesAreNan) {
  const ToyLayout& test = toy_layout("fp8_block");
  auto tensors = layout_tensors(test);
  for (StoredTensor& tensor : tensors) {
    if (tensor.name != "model.layers.0.mlp.down_proj.weight") continue;
    tensor.bytes[1] = std::byte{0x7f};
    tensor.bytes[2] = std::byte{0xff};
  }
  TempDir dir;
  const auto checkpoint = open_with(dir, tensors, test.config);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  float values[4];
  widen(*checkpoint->weight({ModuleKind::kDown, 0}), 0, 4, values);
  EXPECT_TRUE(!std::isnan(values[0]) && std::isnan(values[1]));
  EXPECT_TRUE(std::isnan(values[2]) && !std::isnan(values[3]));
}

constexpr const char* kDown = "model.layers.0.mlp.down_proj";

struct BadFile {
  const char* layout;
  const char* suffix;  // of the corrupted part
  std::function<void(StoredTensor&)> spoil;
  std::vector<const char*> message;
};

TEST(BadLayouts, AreRefusedInOneLine) {
  const auto rename = [](StoredTensor& tensor) { tensor.name = "gone"; };
  const auto element_32 = [](int64_t index, int32_t value) {
    return [index, value](StoredTensor& tensor) {
      std::memcpy(tensor.bytes.data() + index * 4, &value, 4);
    };
  };
  const auto reshape = [](std::vector<int64_t> shape, const char* dtype) {
    return [shape, dtype](StoredTensor& tensor) {
      tensor.shape = shape;
      tensor.dtype = dtype;
    };
  };
  const BadFile files[] = {
      {"gptq", ".qweight", rename, {"down_proj.weight\": not found, nor", ".qweight"}},
      {"gptq", ".scales", rename, {".scales\": not found, though other parts"}},
      {"gptq", ".qzeros", reshape({5, 48}, "I16"), {".qzeros", "found i16; accepted: i32"}},
      {"gptq", ".qweight", reshape({20, 384}, "I32"), {".qweight", "shape [20][384]", "[40][192]"}},
      {"gptq", ".bias", element_32(0, 1), {".bias", "gives no place"}},
      {"gptq_sorted", ".g_idx", element_32(7, 10), {".g_idx", "group 10 at input 7", "0 to 9"}},
      {"gptq_sorted", ".g_idx", element_32(7, -5), {".g_idx", "group -5 at input 7"}},
      {"gptq_sorted", ".g_idx", element_32(0, 9), {".g_idx", "31 inputs in group 0", "32 inputs"}},
      {"gptq_sorted",
       ".g_idx",
       [](StoredTensor& tensor) { tensor.bytes.assign(tensor.bytes.size(), std::byte{0}); },
       {".g_idx", "320 inputs in group 0"}},
      {"gptq_sorted", ".g_idx", rename, {".g_idx\": not found, though other parts"}},
      {"packed",
       ".weight_shape",
       element_32(0, 193),
       {".weight_shape", "[193][320]", "[192][320]"}},
      {"packed", ".weight_shape", rename, {".weight_shape\": not found"}},
      {"packed_zeros", ".weight_zero_point", rename, {".weight_zero_point\": not found"}},
      {"packed",
       ".weight_scale",
       reshape({5, 192}, "BF16"),
       {"[5][192]", "[192][5]", "320 inputs"}},
      {"bytes",
       ".weight_scale",
       reshape({192}, "I16"),
       {".weight_scale", "found i16", "f16, bf16"}},
      {"fp8_block",
       ".weight_scale_inv",
       reshape({3, 2}, "F32"),
       {"[3][2]", "[2][3]", "blocks of 128"}},
      {"fp8_block", ".weight_scale_inv", rename, {".weight_scale\": not found"}},
      {"fp8_tensor", ".weight", reshape({192, 320}, "F8_E5M2"), {".weight", "F8_E5M2"}},
      {"gemv", ".qzeros", reshape({96, 4}, "I32"), {".qzeros", "[96][4]", "[192][2]"}},
  };
  for (const BadFile& file : files) {
    TempDir dir;
    const ToyLayout& test = toy_layout(file.layout);
    auto tensors = layout_tensors(test);
    bool is_found = false;
    for (StoredTensor& tensor : tensors) {
      if (tensor.name != std::string(kDown) + file.suffix) continue;
      file.spoil(tensor);
      is_found = true;
    }
    ASSERT_TRUE(is_found) << file.layout << file.suffix;
    const auto checkpoint = open_with(dir, tensors, test.config);
    ASSERT_FALSE(checkpoint.ok()) << file.layout << file.suffix;
    const std::string message = checkpoint.status().message();
    EXPECT_EQ(message.find('\n'), message.npos);
    for (const char* part : file.message) {
      EXPECT_NE(message.find(part), message.npos) << message << "\n lacks " << part;
    }
  }
}

TEST(BadLayouts, AnotherDescriptionIsRefused) {
  struct Wrong {
    const char* layout;
    const char* config;
    const char* message;
  };
  const Wrong wrong[] = {
      {"gptq", R"({"quant_method":"gptq","bits":4,"group_size":50})", "group_size (50)"},
      {"gptq", R"({"quant_method":"gptq","bits":8,"group_size":64})", ".qweight"},
      {"gptq", R"({"quant_method":"awq","group_size":64})", ".qweight"},
      {"gptq",
       R"({"quant_method":"gptq","group_size":64,"modules_in_block_to_quantize":[["q_proj"]]})",
       "no quantization of this layer"},
      {"packed", CT("pack-quantized", R"("num_bits":4,"group_size":32)"), ".weight_scale"},
      {"packed", CT("int-quantized", R"("num_bits":4,"group_size":64)"),
       "q_proj.weight\": not found, nor model.layers.0.self_attn.q_proj.weight in i8, as "
       "config.json "
       "describes compressed-tensors; the layer has .weight_packed in i32, .weight_scale in "},
      {"float_channel", CT("int-quantized", R"("num_bits":8,"strategy":"channel")"),
       "q_proj.weight\": found f8_e4m3; accepted: i8, as config.json describes compressed-tensors"},
      {"packed_zeros", CT("pack-quantized", R"("num_bits":4,"group_size":32)"),
       "zero points, though config.json says symmetric"},
      {"fp8_tensor", R"({"quant_method":"fp8","weight_block_size":[128,128]})", ".weight_scale"},
      {"float_channel",
       R"({"quant_method":"compressed-tensors","format":"float-quantized","ignore":["re:.*down.*",)"
       R"("lm_head"],"config_groups":{"a":{"targets":["Linear"],"weights":{"type":"float"}}}})",
       "down_proj.weight\": found f8_e4m3"},
      {"gemv",
       R"({"quant_method":"awq","version":"gemv","group_size":64,)"
       R"("modules_to_not_convert":["mlp.down_proj"]})",
       "down_proj.qweight\": found quantized weights, though quantization_config leaves the layer "
       "out; accepted: model.layers.0.mlp.down_proj.weight in f32, bf16 or f16, or a"},
      {"gptq", R"({"quant_method":"gptq","group_size":64,"dynamic":{"-:.*\\.down_proj":{}}})",
       "down_proj.qweight\": found quantized weights"},
      {"gptq", R"({"quant_method":"gptq","group_size":64,"modules_to_not_convert":["mlp"]})",
       "gate_proj.qweight\": found quantized weights"},
      {"fp8_tensor", R"({"quant_method":"fp8","ignored_layers":["model.layers.0.mlp.down_proj"]})",
       "down_proj.weight\": found quantized weights"},
      {"packed",
       R"({"quant_method":"compressed-tensors","format":"pack-quantized","transform_config":)"
       R"({"config_groups":{"R1":{"type":"hadamard"}}},"config_groups":{"a":{"targets":["Linear"],)"
       R"("weights":{"num_bits":4,"group_size":64}}}})",
       "\"quantization_config.transform_config\": found an object; accepted: none"},
  };
  for (const Wrong& each : wrong) {
    TempDir dir;
    const auto checkpoint = open_with(dir, layout_tensors(toy_layout(each.layout)), each.config);
    ASSERT_FALSE(checkpoint.ok()) << each.config;
    EXPECT_NE(checkpoint.status().message().find(each.message), std::string::npos)
        << checkpoint.status().message() << "\n lacks " << each.message;
  }
}

// A part of a name may mean another module: "mlp.gate" belongs to a mixture of experts.
TEST(LeftOutLayers, APartOfAWordLeavesOutNothingThatIsQuantized) {
  TempDir dir;
  const auto checkpoint = open_with(
      dir, layout_tensors(toy_layout("fp8_tensor")),
      R"({"quant_method":"fp8","modules_to_not_convert":["model.layers.0.mlp.gate","s.0.mlp.up",)"
      R"("layers.00","lm_head","."]})");
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
}

TEST(LeftOutLayers, AnEmptyTransformIsNone) {
  for (const char* const transform : {"null", "{}", R"({"config_groups":{}})"}) {
    TempDir dir;
    const auto checkpoint = open_with(
        dir, layout_tensors(toy_layout("packed")),
        std::string(R"({"quant_method":"compressed-tensors","format":"pack-quantized",)") +
            R"("transform_config":)" + transform +
            R"(,"config_groups":{"a":{"targets":["Linear"],"weights":{"num_bits":4,)"
            R"("group_size":64}}}})");
    EXPECT_TRUE(checkpoint.ok()) << transform << checkpoint.status().message();
  }
}

// A layer that the description leaves out is plain, by whichever kind of name.
TEST(LeftOutLayers, ArePlain) {
  struct Leaves {
    const char* layout;
    const char* config;
    bool accepts;
  };
  const Leaves all[] = {
      {"gptq", R"({"quant_method":"gptq","group_size":64})", false},
      {"gptq", R"({"quant_method":"gptq","group_size":64,"dynamic":{"-:.*\\.down_proj":{}}})",
       true},
      {"gptq",
       R"({"quant_method":"gptq","group_size":64,"modules_in_block_to_quantize":[["q_proj",)"
       R"("k_proj"],["v_proj"],["self_attn.o_proj"],["gate_proj","up_proj"]]})",
       true},
      {"fp8_block",
       R"({"quant_method":"fp8","weight_block_size":[128,128],)"
       R"("modules_to_not_convert":["lm_head","layers.0.mlp.down_proj"]})",
       true},
      {"packed",
       R"({"quant_method":"compressed-tensors","format":"mixed-precision","ignore":)"
       R"(["re:model.*mlp\\.(down|x)_proj$"],"config_groups":{"a":{"targets":["Linear"],)"
       R"("format":"pack-quantized","weights":{"num_bits":4,"group_size":64}}}})",
       true},
      {"packed",
       R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":)"
       R"({"a":{"targets":["re:.*(attn|gate|up).*"],"weights":{"num_bits":4,)"
       R"("group_size":64}}}})",
       true},
      {"packed",
       R"({"quant_method":"compressed-tensors","format":"pack-quantized","ignore":)"
       R"(["down_proj"],"config_groups":{"a":{"targets":["Linear"],"weights":{"num_bits":)"
       R"(4,"group_size":64}}}})",
       false},
  };
  for (const Leaves& each : all) {
    std::vector<StoredTensor> tensors;
    for (StoredTensor& tensor : layout_tensors(toy_layout(each.layout))) {
      if (!tensor.name.starts_with(kDown)) tensors.push_back(std::move(tensor));
    }
    for (StoredTensor& tensor : plain_tensors()) {
      if (tensor.name.starts_with(kDown)) tensors.push_back(std::move(tensor));
    }
    TempDir dir;
    const auto checkpoint = open_with(dir, tensors, each.config);
    EXPECT_EQ(checkpoint.ok(), each.accepts) << each.config << checkpoint.status().message();
    if (!checkpoint.ok()) continue;
    EXPECT_EQ(checkpoint->weight({ModuleKind::kDown, 0})->parts, nullptr);
    EXPECT_NE(checkpoint->weight({ModuleKind::kUp, 0})->parts, nullptr);
  }
}

TEST(GemvFast, AZeroThatIsNoWholeNumberGivesNan) {
  const ToyLayout& test = toy_layout("gemv_fast");
  auto tensors = layout_tensors(test);
  for (StoredTensor& tensor : tensors) {
    if (tensor.name != std::string(kDown) + ".qzeros") continue;
    const f16 infinite = to_f16(std::numeric_limits<float>::infinity());
    std::memcpy(tensor.bytes.data(), &infinite, sizeof infinite);
  }
  TempDir dir;
  const auto checkpoint = open_with(dir, tensors, test.config);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  float values[65];
  widen(*checkpoint->weight({ModuleKind::kDown, 0}), 0, 65, values);
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[63]));
  EXPECT_FALSE(std::isnan(values[64]));
}

TEST(NamePattern, MatchesAsPythonDoes) {
  struct Match {
    const char* pattern;
    const char* name;
    bool in_full;
    bool matches;
  };
  const Match all[] = {
      {"lm_head", "lm_head", true, true},
      {"down_proj", "model.layers.0.mlp.down_proj", true, false},
      {"down_proj", "model.layers.0.mlp.down_proj", false, true},
      {"", "lm_head", false, false},
      {"re:.*down_proj", "model.layers.0.mlp.down_proj", true, true},
      // Matches from the first character.
      {"re:down_proj", "model.layers.0.mlp.down_proj", true, false},
      {"re:model.layers.1", "model.layers.10.mlp", true, true},  // may end at any character
      {"re:model.layers.1$", "model.layers.10", true, false},
      {R"(re:model\.layers\.\d+\.mlp)", "model.layers.10.mlp", true, true},
      {R"(re:model\.layers\.[2-9]\.)", "model.layers.1.mlp", true, false},
      {R"(re:.*[^x]_proj)", "a.q_proj", true, true},
      {"re:.*(q|k|v)_proj$", "a.v_proj", true, true},
      {"re:.*(?:q|k)_proj$", "a.v_proj", true, false},
      {"re:(?!.*mlp).*", "model.layers.0.mlp", true, false},
      {"re:(?!.*mlp).*", "model.layers.0.attn", true, true},
      {"re:(?=.*mlp)model", "model.layers.0.mlp", true, true},
      {"re:mo?del+.*?x?", "modell", true, true},
      {"re:(a*)*(a*)*(a*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true, false},
  };
  for (const Match& each : all) {
    EXPECT_TRUE(is_readable_pattern(each.pattern)) << each.pattern;
    EXPECT_EQ(matches_layer(each.pattern, each.name, each.in_full), each.matches)
        << each.pattern << " " << each.name;
  }
  for (const char* pattern : {"re:a{2}", "re:(a", "re:a)", "re:[a", "re:*a", "re:a**", R"(re:\1)",
                              R"(re:a\)", "re:(?<=a)b", "re:(?P<n>a)"}) {
    EXPECT_FALSE(is_readable_pattern(pattern)) << pattern;
    EXPECT_FALSE(matches_layer(pattern, "model.layers.0.self_attn.q_proj", true)) << pattern;
  }
}

}  // namespace
}  // namespace forerun
