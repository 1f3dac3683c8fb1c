#include "format_list.h"

#include <optional>

#include "checkpoint/blocks/block_format.h"
#include "kernels/linear/formats/grouped.h"
#include "model/block_packing.h"
#include "terminal.h"

namespace forerun::app {
namespace {

double stored_bits(const BlockFormatInfo& blocks) {
  return 8.0 * static_cast<double>(blocks.bytes) / static_cast<double>(blocks.weights);
}

// The size of a weight in a kernel's memory, its share of the scales included.
double kernel_bits(WeightFormat format) {
  const GroupedFormat& grouped = grouped_format(format);
  return 8.0 * static_cast<double>(section_bytes(grouped)) /
         static_cast<double>(kBlockOuts * section_inputs(grouped));
}

}  // namespace

std::string format_list() {
  std::string text =
      "| format | bits a weight | on processors | on GPUs |\n| --- | --- | --- | --- |\n"
      "| F32, F16, BF16 | 32, 16, 16 | as stored | rounded to bf16 |\n";
  for (const BlockFormatInfo& blocks : block_formats()) {
    const std::optional<WeightFormat> kernel = kernel_format(blocks.format);
    text += "| " + std::string(blocks.name) + " | " + format_fixed(stored_bits(blocks), 2) + " | ";
    text += kernel ? "as stored, " + format_fixed(kernel_bits(*kernel), 2) + " bits in memory"
                   : "widened to f32";
    text += " | rounded to bf16 |\n";
  }
  return text;
}

}  // namespace forerun::app
