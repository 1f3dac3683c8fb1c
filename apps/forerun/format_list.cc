#include "format_list.h"

#include <optional>
#include <vector>

#include "checkpoint/blocks/block_format.h"
#include "kernels/linear/formats/grouped.h"
#include "kernels/linear/unit_formats.h"
#include "model/block_packing.h"
#include "terminal.h"

namespace forerun::app {
namespace {

struct FormatLine {
  std::string stored;
  std::string bits;      // per weight in the files, including its share of the scales
  std::string found_in;  // kinds of files
  std::string on_processors;
  std::string on_gpus;
};

constexpr const char* kAsStored = "as stored";
constexpr const char* kRoundedOnGpus = "rounded to bf16";

std::vector<FormatLine> float_lines() {
  const std::string files = "safetensors, GGUF";
  return {{"F32", "32", files, kAsStored, kRoundedOnGpus},
          {"F16", "16", files, kAsStored, kRoundedOnGpus},
          {"BF16", "16", files, kAsStored, kAsStored}};
}

// Bits of a weight in a GPU's memory.
std::string gpu_bits(cuda::LinearFormat format) {
  return format_fixed(8.0 * cuda::unit_bytes(format) / (32.0 * cuda::unit_inputs(format)), 2);
}

// Formats whose weights are several tensors of a safetensors file; bits with groups of 128, or
// with a scale for each output (int8, FP8).
std::vector<FormatLine> layout_lines() {
  using cuda::LinearFormat;
  const std::string file = "safetensors";
  const std::string int4 = "as stored, " + gpu_bits(LinearFormat::kInt4Group128) + " to " +
                           gpu_bits(LinearFormat::kInt4Zeros) + " bits in memory";
  const std::string int8 = ", int8 " + gpu_bits(LinearFormat::kQ8_0);
  return {{"AWQ int4, \"gemm\"", "4.16", file, kAsStored, int4},
          {"AWQ int4, \"gemv\", \"gemv_fast\"", "4.16", file, kAsStored, int4},
          {"GPTQ int4, int8", "4.16, 8.19", file, kAsStored,
           int4 + int8 + "; rounded to bf16 if desc_act, or int8 with zeros"},
          {"compressed-tensors int4, int8", "4.12, 8.12", file, kAsStored,
           int4 + int8 + "; rounded to bf16 if actorder is group, or int8 with zeros"},
          {"FP8 (e4m3) by tensor, output or block", "8", file, kAsStored, kAsStored}};
}

double stored_bits(const BlockFormatInfo& blocks) {
  return 8.0 * static_cast<double>(blocks.bytes) / static_cast<double>(blocks.weights);
}

// Returns the bits of a weight in a kernel's memory, including its share of the scales.
double kernel_bits(WeightFormat format) {
  const GroupedFormat& grouped = grouped_format(format);
  return 8.0 * static_cast<double>(section_bytes(grouped)) /
         static_cast<double>(kBlockOuts * section_inputs(grouped));
}

std::string on_gpus(WeightFormat kernel) {
  const auto format = cuda::grouped_format(kernel);
  if (!format) return kRoundedOnGpus;
  return "as stored, " + gpu_bits(*format) + " bits in memory";
}

std::vector<FormatLine> block_lines() {
  std::vector<FormatLine> lines;
  for (const BlockFormatInfo& blocks : block_formats()) {
    const std::optional<WeightFormat> kernel = kernel_format(blocks.format);
    lines.push_back({std::string(blocks.name), format_fixed(stored_bits(blocks), 2), "GGUF",
                     kernel
                         ? "as stored, " + format_fixed(kernel_bits(*kernel), 2) + " bits in memory"
                         : "widened to f32",
                     kernel ? on_gpus(*kernel) : kRoundedOnGpus});
  }
  return lines;
}

}  // namespace

std::string format_list() {
  std::string text =
      "| stored format | bits a weight | found in | on processors | on GPUs |\n"
      "| --- | --- | --- | --- | --- |\n";
  for (const auto& lines : {float_lines(), layout_lines(), block_lines()}) {
    for (const FormatLine& line : lines) {
      text += "| " + line.stored + " | " + line.bits + " | " + line.found_in + " | " +
              line.on_processors + " | " + line.on_gpus + " |\n";
    }
  }
  return text;
}

}  // namespace forerun::app
