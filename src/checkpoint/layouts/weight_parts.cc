#include "checkpoint/layouts/weight_parts.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/layouts/weight_layout.h"
#include "checkpoint/tensor_checks.h"
#include "checkpoint/tensor_table.h"

namespace forerun {
namespace {

constexpr std::string_view kTensorOf = "tensor ";

std::string part_label(std::string_view name) { return std::string(kTensorOf) + in_quotes(name); }

Status part_disagrees(std::string_view name, const std::string& found,
                      const std::string& accepted) {
  return Status(StatusCode::kCorrupt,
                part_label(name) + ": found " + found + "; accepted: " + accepted);
}

std::string dtypes_text(uint32_t dtypes) {
  std::string text;
  for (const DType dtype : {DType::kF8E4M3, DType::kF16, DType::kBf16, DType::kF32, DType::kI8,
                            DType::kI16, DType::kI32, DType::kI64}) {
    if (!is_in(dtype, dtypes)) continue;
    text += (text.empty() ? "" : ", ") + std::string(dtype_name(dtype));
  }
  return text;
}

std::string shapes_text(const Shapes& shapes) {
  std::string text;
  for (const std::vector<int64_t>& shape : shapes) {
    text += (text.empty() ? "" : " or ") + shape_text(shape);
  }
  return text;
}

std::string layer_text(const PartTensors& layer, const LayerScheme& scheme) {
  std::string text =
      std::to_string(layer.in) + " inputs, " + std::to_string(layer.out) + " outputs";
  if (scheme.block_size != 0) text += ", blocks of " + std::to_string(scheme.block_size);
  if (scheme.group_size != 0) text += ", group size " + std::to_string(scheme.group_size);
  return text;
}

bool is_all_zero(const RawTensor& tensor) {
  return std::all_of(tensor.bytes.begin(), tensor.bytes.end(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

bool is_plain_float(const RawTensor& tensor) { return is_in(tensor.dtype, kFloats); }

int64_t whole_element(const RawTensor& tensor, int64_t index) {
  return tensor.dtype == DType::kI64 ? element_at<int64_t>(tensor, index)
                                     : int64_t{element_at<int32_t>(tensor, index)};
}

// Returns the tensor of a part under one of its two names, or null.
const RawTensor* part_tensor(const TensorTable& table, const std::string& module,
                             const LayoutPart& part, std::string& name) {
  for (const std::string_view suffix : {part.other_suffix, part.suffix}) {
    if (suffix.empty()) continue;
    name = module + std::string(suffix);
    if (const RawTensor* const tensor = table.find(name)) return tensor;
  }
  return nullptr;
}

constexpr int64_t kPortion = 256;  // values per decoding step

// Returns every code of e4m3 as f32.
const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> made{};
    for (size_t code = 0; code < made.size(); ++code) {
      made[code] = to_float(f8_e4m3{static_cast<uint8_t>(code)});
    }
    return made;
  }();
  return values;
}

float dequantized(uint8_t quant, int16_t zero, float scale) {
  return static_cast<float>(int32_t{quant} - int32_t{zero}) * scale;
}

}  // namespace

bool WeightParts::are_in(const TensorTable& table, const std::string& module,
                         const LayerScheme& scheme) {
  std::string name;
  const RawTensor* const first = part_tensor(table, module, scheme.layout->parts.front(), name);
  return first != nullptr && !is_plain_float(*first);
}

Status WeightParts::find(const TensorTable& table, const Module& module,
                         const LayerScheme& scheme) {
  layout_ = scheme.layout;
  name_ = layout_name(scheme);
  parts_ = {.out = module.out, .in = module.in, .bits = scheme.bits};
  parts_.block = scheme.block_size;
  has_zeros_ = scheme.has_zeros;
  parts_.added_zero = scheme.zeros_lack_one ? 1 : 0;
  parts_.group = scheme.group_size > 0 ? scheme.group_size : module.in;
  const std::string spelled = module_name(module.id, ModuleNaming::kHuggingFace);
  const std::string first = spelled + std::string(layout().parts.front().suffix);
  if (parts_.in % parts_.group != 0) {
    return part_disagrees(
        first, std::to_string(parts_.in) + " input channels",
        "a multiple of quantization_config's group_size (" + std::to_string(parts_.group) + ")");
  }
  parts_.groups = parts_.in / parts_.group;
  for (const auto& [extent, unit, what] :
       {std::tuple(parts_.out, layout().out_unit(parts_), " output channels"),
        std::tuple(parts_.in, layout().in_unit(parts_), " input channels")}) {
    if (extent % unit == 0) continue;
    return part_disagrees(first, std::to_string(extent) + what,
                          "a multiple of " + std::to_string(unit) + what);
  }
  for (size_t part = 0; part < layout().parts.size(); ++part) {
    FORERUN_RETURN_IF_ERROR(find_part(table, spelled, scheme, part));
  }
  tensor_ = RawTensor{.name = tensors_.front().tensor->name,
                      .dtype = DType::kParts,
                      .shape = {parts_.out, parts_.in},
                      .bytes = {},
                      .parts = this};
  return {};
}

Status WeightParts::find_part(const TensorTable& table, const std::string& module,
                              const LayerScheme& scheme, size_t index) {
  const LayoutPart& part = layout().parts[index];
  std::string name;
  const RawTensor* const tensor = part_tensor(table, module, part, name);
  const bool is_wanted = part.role == PartRole::kNeeded || part.role == PartRole::kShape ||
                         (part.role == PartRole::kZeros && scheme.has_zeros) ||
                         (part.role == PartRole::kOrder && scheme.has_order);
  if (tensor == nullptr) {
    if (!is_wanted) return {};
    const std::string_view foreign = table.foreign_dtype(name);
    if (!foreign.empty()) {
      return part_disagrees(name, printable(foreign), dtypes_text(part.dtypes));
    }
    return Status(StatusCode::kCorrupt,
                  part_label(name) +
                      ": not found, though other parts of the layer are; accepted: all "
                      "parts of " +
                      std::string(layout().method));
  }
  if (part.role == PartRole::kNotRead) {
    tensors_.push_back({std::move(name), tensor});
    return {};
  }
  if (!is_in(tensor->dtype, part.dtypes)) {
    return part_disagrees(
        tensor->name, std::string(dtype_name(tensor->dtype)),
        dtypes_text(part.dtypes) + ", as config.json describes " + std::string(layout().method));
  }
  const Shapes shapes = part.shapes(parts_, tensor->dtype);
  if (std::find(shapes.begin(), shapes.end(), tensor->shape) == shapes.end()) {
    return part_disagrees(
        tensor->name, "shape " + shape_text(tensor->shape),
        shapes_text(shapes) + " for " + layer_text(parts_, scheme) + ", as config.json says");
  }
  parts_.tensors[index] = tensor;
  tensors_.push_back({std::move(name), tensor});
  const bool is_zeros = part.role == PartRole::kZeros && !scheme.has_zeros;
  if (is_zeros || part.role == PartRole::kShape || part.role == PartRole::kOrder) {
    read_tensors_.push_back(tensor);
  }
  if (is_zeros) {
    if (!is_all_zero(*tensor)) {
      return part_disagrees(tensor->name, "zero points, though config.json says symmetric",
                            "none, or zeros only");
    }
    parts_.tensors[index] = nullptr;
  }
  if (part.role == PartRole::kShape) {
    const std::vector<int64_t> shape = {whole_element(*tensor, 0), whole_element(*tensor, 1)};
    const std::vector<int64_t> accepted = {parts_.out, parts_.in};
    if (shape != accepted) {
      return part_disagrees(tensor->name, "the values " + shape_text(shape),
                            shape_text(accepted) + ", as config.json says");
    }
  }
  if (part.role == PartRole::kOrder) return read_order(*tensor, scheme.has_order);
  return {};
}

Status WeightParts::read_order(const RawTensor& groups_of_inputs, bool wanted) {
  std::vector<int32_t> group_of(static_cast<size_t>(parts_.in));
  bool is_sorted = true, is_unset = true, is_zero = true;
  for (int64_t in = 0; in < parts_.in; ++in) {
    const int64_t group = whole_element(groups_of_inputs, in);
    is_sorted = is_sorted && group == in / parts_.group;
    is_unset = is_unset && group == -1;
    is_zero = is_zero && group == 0;
    group_of[static_cast<size_t>(in)] =
        static_cast<int32_t>(std::clamp<int64_t>(group, -1, parts_.groups));
  }
  // Files with inputs in order may contain the tensor in its initial state.
  if (is_sorted || is_unset || (is_zero && !wanted)) return {};
  std::vector<int64_t> inputs(static_cast<size_t>(parts_.groups));
  for (int64_t in = 0; in < parts_.in; ++in) {
    const int32_t group = group_of[static_cast<size_t>(in)];
    if (group < 0 || group >= parts_.groups) {
      return part_disagrees(groups_of_inputs.name,
                            "group " + std::to_string(whole_element(groups_of_inputs, in)) +
                                " at input " + std::to_string(in),
                            "0 to " + std::to_string(parts_.groups - 1));
    }
    ++inputs[static_cast<size_t>(group)];
  }
  for (int64_t group = 0; group < parts_.groups; ++group) {
    const int64_t count = inputs[static_cast<size_t>(group)];
    if (count == parts_.group) continue;
    return part_disagrees(groups_of_inputs.name,
                          std::to_string(count) + " inputs in group " + std::to_string(group),
                          std::to_string(parts_.group) + " inputs in each");
  }
  order_.resize(group_of.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](int32_t left, int32_t right) {
    return group_of[static_cast<size_t>(left)] < group_of[static_cast<size_t>(right)];
  });
  group_of_ = std::move(group_of);
  return {};
}

int64_t WeightParts::stored_bytes() const {
  int64_t bytes = 0;
  for (const ModuleTensor& each : tensors_)
    bytes += static_cast<int64_t>(each.tensor->bytes.size());
  return bytes;
}

void WeightParts::widen(int64_t out, int64_t first, int64_t count, float* to) const {
  if (are_floats()) {
    const RawTensor& codes = parts_[0];
    const std::byte* const row = codes.bytes.data() + out * parts_.in;
    const int64_t block = parts_.block == 0 ? parts_.in : parts_.block;
    for (int64_t in = first; in < first + count;) {
      const int64_t end = std::min(first + count, (in / block + 1) * block);
      const float scale = layout().scale(parts_, out, in / block);
      for (; in < end; ++in) *to++ = e4m3_values()[static_cast<uint8_t>(row[in])] * scale;
    }
    return;
  }
  uint8_t quants[kPortion];
  if (group_of_.empty()) {
    for (int64_t in = first; in < first + count;) {
      const int64_t group = in / parts_.group;
      const float scale = layout().scale(parts_, out, group);
      const int16_t zero = layout().zero(parts_, out, group);
      const int64_t end = std::min(first + count, (group + 1) * parts_.group);
      while (in < end) {
        const int64_t portion = std::min(kPortion, end - in);
        layout().quants(parts_, out, in, {quants, {1, portion}});
        for (int64_t i = 0; i < portion; ++i) *to++ = dequantized(quants[i], zero, scale);
        in += portion;
      }
    }
    return;
  }
  std::vector<float> scales(static_cast<size_t>(parts_.groups));
  std::vector<int16_t> zeros(scales.size());
  for (int64_t group = 0; group < parts_.groups; ++group) {
    scales[static_cast<size_t>(group)] = layout().scale(parts_, out, group);
    zeros[static_cast<size_t>(group)] = layout().zero(parts_, out, group);
  }
  for (int64_t in = first; in < first + count;) {
    const int64_t portion = std::min(kPortion, first + count - in);
    layout().quants(parts_, out, in, {quants, {1, portion}});
    for (int64_t i = 0; i < portion; ++i) {
      const auto group = static_cast<size_t>(group_of_[static_cast<size_t>(in + i)]);
      *to++ = dequantized(quants[i], zeros[group], scales[group]);
    }
    in += portion;
  }
}

std::optional<StoredIntegers> WeightParts::integers(int64_t first_out, int64_t last_out,
                                                    int64_t first_in, int64_t last_in) const {
  const int64_t ins = last_in - first_in;
  if (are_floats() || ins == 0) return std::nullopt;
  if (!order_.empty() && ins != parts_.in) return std::nullopt;
  StoredIntegers range{.outs = last_out - first_out,
                       .ins = ins,
                       .bits = parts_.bits,
                       .group = parts_.group,
                       .scale_dtype = parts_[layout().scale_part].dtype,
                       .has_zeros = has_zeros_beside_middle(),
                       .has_short_scales = has_short_scales(),
                       .order = order_,
                       .parts = this,
                       .first_out = first_out,
                       .first_in = first_in};
  const bool is_in_one_group = first_in / parts_.group == (last_in - 1) / parts_.group;
  range.group = is_in_one_group ? ins : std::gcd(parts_.group, std::gcd(first_in, ins));
  return range;
}

bool WeightParts::has_zeros_beside_middle() const {
  if (!has_zeros_) return false;
  Answer answer = has_zeros_beside_middle_;
  if (answer == Answer::kUnknown) {
    const int16_t middle = static_cast<int16_t>(1 << (parts_.bits - 1));
    answer = Answer::kNo;
    for (int64_t at = 0; at < parts_.groups * parts_.out && answer == Answer::kNo; ++at) {
      const int16_t zero = layout().zero(parts_, at % parts_.out, at / parts_.out);
      if (zero != middle) answer = Answer::kYes;
    }
    has_zeros_beside_middle_ = answer;
  }
  return answer == Answer::kYes;
}

bool WeightParts::has_short_scales() const {
  constexpr uint32_t kLowBits = 0x1ff;  // bits of an f32 mantissa beyond the first 15
  if (parts_.bits != 8 || parts_[layout().scale_part].dtype != DType::kF32) return true;
  Answer answer = has_short_scales_;
  if (answer == Answer::kUnknown) {
    answer = Answer::kYes;
    for (int64_t at = 0; at < parts_.groups * parts_.out && answer == Answer::kYes; ++at) {
      const float scale = layout().scale(parts_, at % parts_.out, at / parts_.out);
      if ((std::bit_cast<uint32_t>(scale) & kLowBits) != 0) answer = Answer::kNo;
    }
    has_short_scales_ = answer;
  }
  return answer == Answer::kYes;
}

bool WeightParts::has_f16_scales() const {
  if (parts_[layout().scale_part].dtype == DType::kF16) return true;
  Answer answer = has_f16_scales_;
  if (answer == Answer::kUnknown) {
    answer = Answer::kYes;
    for (int64_t at = 0; at < parts_.groups * parts_.out && answer == Answer::kYes; ++at) {
      const float scale = layout().scale(parts_, at % parts_.out, at / parts_.out);
      if (to_float(to_f16(scale)) != scale) answer = Answer::kNo;
    }
    has_f16_scales_ = answer;
  }
  return answer == Answer::kYes;
}

bool WeightParts::has_zeros_of_bits() const {
  if (!has_zeros_) return true;
  Answer answer = has_zeros_of_bits_;
  if (answer == Answer::kUnknown) {
    answer = Answer::kYes;
    for (int64_t at = 0; at < parts_.groups * parts_.out && answer == Answer::kYes; ++at) {
      const int16_t zero = layout().zero(parts_, at % parts_.out, at / parts_.out);
      if (zero < 0 || zero >> parts_.bits != 0) answer = Answer::kNo;
    }
    has_zeros_of_bits_ = answer;
  }
  return answer == Answer::kYes;
}

bool WeightParts::are_floats() const { return layout().quants == nullptr; }

std::optional<ScaledFloats> WeightParts::floats() const {
  if (!are_floats()) return std::nullopt;
  ScaledFloats floats{.codes = &parts_[0], .scales = {}};
  const bool is_tensors =
      parts_[layout().scale_part].bytes.size() == dtype_bytes(parts_[layout().scale_part].dtype);
  floats.block_out = parts_.block != 0 ? parts_.block : is_tensors ? parts_.out : 1;
  floats.block_in = parts_.block != 0 ? parts_.block : parts_.in;
  floats.in_blocks = divided(parts_.in, floats.block_in);
  const int64_t out_blocks = divided(parts_.out, floats.block_out);
  floats.scales.reserve(static_cast<size_t>(out_blocks * floats.in_blocks));
  for (int64_t out = 0; out < parts_.out; out += floats.block_out) {
    for (int64_t block = 0; block < floats.in_blocks; ++block) {
      floats.scales.push_back(layout().scale(parts_, out, block));
    }
  }
  return floats;
}

std::optional<AwqTensors> WeightParts::awq_gemm() const {
  if (!layout().is_awq_gemm) return std::nullopt;
  return AwqTensors{.qweight = &parts_[0],
                    .qzeros = &parts_[1],
                    .scales = &parts_[2],
                    .in_features = parts_.in,
                    .out_features = parts_.out,
                    .group_size = parts_.group};
}

void StoredIntegers::quants(int64_t first, MatrixView<uint8_t> to) const {
  const auto stored = parts->layout().quants;
  if (order.empty()) return stored(parts->parts_, first_out + first, first_in, to);
  const int64_t stride = to.outer_stride();
  std::vector<uint8_t> unordered(static_cast<size_t>(to.dim(0) * stride));
  const MatrixView<uint8_t> from(unordered.data(), to.shape(), stride);
  stored(parts->parts_, first_out + first, 0, from);
  for (int64_t out = 0; out < to.dim(0); ++out) {
    const uint8_t* const row = from.row(out);
    uint8_t* const ordered = to.row(out);
    for (int64_t i = 0; i < ins; ++i) ordered[i] = row[order[static_cast<size_t>(i)]];
  }
}

void StoredIntegers::scales(int64_t out, float* to) const {
  for (int64_t i = 0; i < groups(); ++i) {
    const int64_t stored = (first_in + i * group) / parts->parts_.group;
    to[i] = parts->layout().scale(parts->parts_, first_out + out, stored);
  }
}

void StoredIntegers::zeros(int64_t out, int16_t* to) const {
  for (int64_t i = 0; i < groups(); ++i) {
    const int64_t stored = (first_in + i * group) / parts->parts_.group;
    to[i] = parts->layout().zero(parts->parts_, first_out + out, stored);
  }
}

}  // namespace forerun
