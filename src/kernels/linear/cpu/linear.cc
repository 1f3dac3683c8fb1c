// Implements linear() and gate_up_swiglu(): they divide output channels among the team, compute
// tiles of rows x channels whose sums stay in the L1 or L2 cache, and store them through the
// epilogue.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdlib>

#include "kernels/isa.h"
#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/formats/grouped.h"
#include "kernels/linear/formats/weight_formats.h"
#include "kernels/linear/linear_input.h"
#include "kernels/linear/linear_weight.h"

namespace forerun {
namespace {

std::atomic<const LinearKernels*> replaced_kernels{nullptr};

const LinearKernels& default_kernels() {
  const Isa isa = current_isa();
#if !defined(FORERUN_WITHOUT_AVX512)
  if constexpr (isa_is_built(Isa::kAmx)) {
    if (isa == Isa::kAmx) {
      if constexpr (kAmxTwinIsBuilt) {
        if (isa_is_emulated(isa)) return kLinearAmxTwin;
      }
      return kLinearAmx;
    }
  }
  if constexpr (isa_is_built(Isa::kAvx512Bf16)) {
    if (isa == Isa::kAvx512Bf16) {
      return bf16_dots_are_slow() ? kLinearAvx512Bf16ByFmas : kLinearAvx512Bf16;
    }
  }
  if constexpr (isa_is_built(Isa::kAvx512)) {
    if (isa == Isa::kAvx512) return kLinearAvx512;
  }
#endif
  if constexpr (isa_is_built(Isa::kAvx2)) {
    if (isa == Isa::kAvx2) return kLinearAvx2;
  }
  if constexpr (isa_is_built(Isa::kScalar)) return kLinearScalar;
  std::abort();  // check_isa() has refused this CPU
}

// A tile has as many rows as their packed inputs fit in the L2 cache beside some weights, and as
// many channels as their weights fit.
constexpr int64_t kTileInputBytes = int64_t{384} << 10;
constexpr int64_t kMaxTileRows = 128;
constexpr int64_t kTileOuts = 48;     // whole blocks of 16, whole register tiles of 3 and 4
constexpr int64_t kGroupedOuts = 64;  // whole register tiles of two blocks
// AMX kernels process the inputs in passes; the inputs of all rows for one pass, the weights of two
// columns and the sums share the L2 cache. With more channels per tile, rows are read less often.
// One or two tiles of rows stream through the weights instead.
constexpr int64_t kMaxDotRows = 256;
constexpr int64_t kDotOuts = 256;
constexpr int64_t kStreamOuts = 64;
// The channels per tile of other kernels that process the inputs in passes.
constexpr int64_t kPassOuts = 128;

struct Scratch {
  AlignedBuffer sums;
  AlignedBuffer other_sums;  // sums of the up projection
  AlignedBuffer partial;
};

Scratch& scratch() {
  thread_local Scratch buffers;
  return buffers;
}

// The shape of one tile within a call.
struct Tile {
  int64_t row;
  MTiles m_tiles;
  int64_t out;
  int64_t outs;
  int64_t sums_stride;
};

// The tiles of a call: their maximum size, and the unit in which channels are divided among
// members.
struct TilePlan {
  MTiles m_tiles;
  int64_t max_m_tiles;
  int64_t outs;
  int64_t grain;
};

WeightKind kind_of(const LinearWeight& weight) { return weight_format_info(weight.format()).kind; }

// Returns whether AMX tiles multiply this weight.
bool takes_tiles(const LinearKernels& kernels, const LinearWeight& weight,
                 const InputLayout& layout) {
  if (kernels.tile_rows == 0) return false;
  const WeightKind kind = kind_of(weight);
  if (kind == WeightKind::kPairs) return true;
  return kind == WeightKind::kIntegers && (layout.digit_layout == DigitLayout::kTiles ||
                                           layout.digit_layout == DigitLayout::kBf16Tiles);
}

// Returns the M tiles of the rows for this weight's kernels.
const MTiles& m_tiles_of(const LinearWeight& weight, const LinearInput& x) {
  const LinearInput::Storage& input = x.storage();
  switch (kind_of(weight)) {
    case WeightKind::kDense:
      return input.m_tiles;
    case WeightKind::kPairs:
      return input.half_m_tiles;
    case WeightKind::kIntegers:
      break;
  }
  return input.layout.digit_count > 0 ? input.digit_m_tiles : input.m_tiles;
}

float* floats_of(AlignedBuffer& buffer, int64_t count) {
  buffer.grow(static_cast<size_t>(count) * sizeof(float));
  return reinterpret_cast<float*>(buffer.data());
}

void dense_sums(const LinearKernels& kernels, const LinearWeight& weight, const LinearInput& x,
                const Tile& tile, float* sums) {
  const LinearInput::Storage& input = x.storage();
  const LinearWeight::Storage& stored = weight.storage();
  DenseTask task = {};
  task.w = reinterpret_cast<const char*>(stored.data) + tile.out * stored.row_bytes;
  task.w_stride = stored.row_bytes;
  assert(input.at.floats != nullptr);
  task.x_row_bytes = input.layout.float_bytes;
  task.x = reinterpret_cast<const char*>(input.at.floats) + tile.row * task.x_row_bytes;
  task.in = weight.in_features();
  task.m_tiles = tile.m_tiles;
  task.outs = tile.outs;
  task.sums = sums;
  task.sums_stride = tile.sums_stride;
  task.scratch = floats_of(scratch().partial, dense_scratch_floats(tile.m_tiles.rows, tile.outs));
  task.scales = stored.scales.data();
  task.scales_stride = stored.scales_stride;
  task.first_out = tile.out;
  task.scale_outs = stored.scale_outs;
  task.scale_inputs = stored.scale_inputs;
  kernels.dense[weight_format_info(weight.format()).kernel](task);
}

void packed_sums(const LinearKernels& kernels, const LinearWeight& weight, const LinearInput& x,
                 const Tile& tile, float* sums) {
  const LinearInput::Storage& input = x.storage();
  const InputLayout& layout = input.layout;
  const LinearWeight::Storage& stored = weight.storage();
  const WeightFormatInfo& info = weight_format_info(weight.format());
  PackedTask task = {};
  task.w = reinterpret_cast<const char*>(stored.data) + tile.out / kBlockOuts * stored.block_bytes;
  task.block_bytes = stored.block_bytes;
  task.chunk = stored.chunk;
  task.padded_in = stored.padded_in;
  task.m_tiles = tile.m_tiles;
  task.out_blocks = (tile.outs + kBlockOuts - 1) / kBlockOuts;
  task.sums = sums;
  task.sums_stride = tile.sums_stride;
  if (info.kind == WeightKind::kPairs) {
    assert(input.at.halves != nullptr);
    task.x_row_bytes = layout.half_bytes;
    task.x = reinterpret_cast<const char*>(input.at.halves) + tile.row * task.x_row_bytes;
    return kernels.bf16_pairs(task);
  }
  const IntegerKernels& integers = integer_kernels(kernels, info.kernel);
  if (layout.digit_count == 0) {
    assert(input.at.floats != nullptr);
    task.x_row_bytes = layout.float_bytes;
    task.x = reinterpret_cast<const char*>(input.at.floats) + tile.row * task.x_row_bytes;
    return integers.floats(task);
  }
  assert(input.at.digits != nullptr);
  task.x_row_bytes = layout.digit_bytes;
  task.x = reinterpret_cast<const char*>(input.at.digits) + tile.row * task.x_row_bytes;
  task.scales_stride = layout.scale_stride;
  task.scales = input.at.scales + tile.row * task.scales_stride;
  const int64_t per_group = kInputGroup / stored.chunk;
  const int32_t* input_sums = per_group == 8   ? input.at.sums_16
                              : per_group == 4 ? input.at.sums_32
                              : per_group == 2 ? input.at.sums_64
                                               : input.at.sums_128;
  task.input_sums_stride = layout.scale_stride * per_group;
  task.input_sums = input_sums + tile.row * task.input_sums_stride;
  if (layout.has_negated) {
    const float* const negated = per_group == 8 ? input.at.negated_16 : input.at.negated_32;
    task.negated_sums = negated + tile.row * task.input_sums_stride;
  }
  switch (layout.digit_layout) {
    case DigitLayout::kFours:
      return integers.digits[layout.digit_count - 1](task);
    case DigitLayout::kWords:
      return integers.words(task);
    case DigitLayout::kTiles:
      return tile_kernels(kernels, info.kernel).digits[layout.digit_count - 1](task);
    case DigitLayout::kBf16Tiles:
      return tile_kernels(kernels, info.kernel).bf16_digits(task);
  }
}

void tile_sums(const LinearKernels& kernels, const LinearWeight& weight, const LinearInput& x,
               const Tile& tile, float* sums) {
  if (kind_of(weight) == WeightKind::kDense) return dense_sums(kernels, weight, x, tile, sums);
  packed_sums(kernels, weight, x, tile, sums);
}

// Returns whether kernels without AMX tiles process the inputs in passes.
bool takes_passes(const LinearWeight& weight, const InputLayout& layout, const MTiles& m_tiles) {
  const WeightFormatInfo& info = weight_format_info(weight.format());
  if (info.kind != WeightKind::kIntegers) return false;
  if (layout.digit_layout == DigitLayout::kWords) return true;
  return layout.digit_count > 0 && layout.digit_layout == DigitLayout::kFours &&
         m_tiles.rows >= linear_kernels().grouped->min_stretch_rows &&
         integer_kernels(linear_kernels(), info.kernel)
             .digit_passes[static_cast<size_t>(layout.digit_count - 1)];
}

TilePlan plan_tiles(const Team& team, const LinearWeight& weight, const LinearInput& x) {
  const InputLayout& layout = x.storage().layout;
  const bool long_enough = weight.out_features() >= 1024 * team.size();
  TilePlan plan = {};
  plan.m_tiles = m_tiles_of(weight, x);
  if (takes_tiles(linear_kernels(), weight, layout)) {
    plan.max_m_tiles = kMaxDotRows / plan.m_tiles.begin(1);
    plan.outs = plan.m_tiles.count <= 2 ? kStreamOuts : kDotOuts;
    plan.grain = long_enough ? kStreamOuts : kBlockOuts;
    return plan;
  }
  if (takes_passes(weight, layout, plan.m_tiles)) {
    plan.max_m_tiles = kMaxTileRows / plan.m_tiles.begin(1);
    plan.outs = kPassOuts;
    plan.grain = long_enough ? kPassOuts : kBlockOuts;
    return plan;
  }
  const int64_t row_bytes = std::max({layout.digit_bytes, layout.float_bytes, layout.half_bytes});
  const int64_t m_tile_bytes = row_bytes * plan.m_tiles.begin(1);
  // Kernels for bf16 pairs process the inputs in passes; with this many rows a pass always fits.
  const int64_t fitting =
      kind_of(weight) == WeightKind::kPairs ? kMaxTileRows : kTileInputBytes / m_tile_bytes;
  plan.max_m_tiles = std::clamp(fitting, int64_t{1}, kMaxTileRows / plan.m_tiles.begin(1));
  plan.outs = is_grouped(weight.format()) ? kGroupedOuts : kTileOuts;
  plan.grain = long_enough ? plan.outs : kBlockOuts;
  return plan;
}

// Returns a plan with tiles that suit the kernels of two weights.
TilePlan plan_tiles(const Team& team, const LinearWeight& weight, const LinearInput& x,
                    const LinearWeight& other, const LinearInput& other_x) {
  TilePlan plan = plan_tiles(team, weight, x);
  const TilePlan of_other = plan_tiles(team, other, other_x);
  // If the kernels divide the rows into different M tiles, a tile has all rows.
  const bool same = plan.m_tiles.count == of_other.m_tiles.count;
  plan.outs = std::min(plan.outs, of_other.outs);
  plan.max_m_tiles = same ? std::min(plan.max_m_tiles, of_other.max_m_tiles) : plan.m_tiles.count;
  return plan;
}

void check_shapes([[maybe_unused]] const LinearWeight& weight,
                  [[maybe_unused]] const LinearInput& x,
                  [[maybe_unused]] const MatrixView<float>& y) {
  assert(x.in_features() == weight.in_features());
  assert(same_input_order(x.storage().order, weight.input_order()));
  assert(y.dim(0) == x.rows() && y.dim(1) == weight.out_features());
}

// Calls `work` with every tile of this member's channels.
template <class Work>
void for_each_tile(const Team& team, const TilePlan& plan, int64_t out_features, const Work& work) {
  const MTiles& m_tiles = plan.m_tiles;
  const WorkRange outs = team.share(out_features, plan.grain);
  for (int64_t m_tile = 0; m_tile < m_tiles.count; m_tile += plan.max_m_tiles) {
    const int64_t count = std::min(plan.max_m_tiles, m_tiles.count - m_tile);
    const int64_t row = m_tiles.begin(m_tile);
    const MTiles rows = {m_tiles.begin(m_tile + count) - row, count};
    for (int64_t out = outs.begin; out < outs.end; out += plan.outs) {
      work(Tile{row, rows, out, std::min(plan.outs, outs.end - out), plan.outs});
    }
  }
}

}  // namespace

const LinearKernels& linear_kernels() {
  const LinearKernels* replaced = replaced_kernels.load(std::memory_order_relaxed);
  if (replaced != nullptr) return *replaced;
  static const LinearKernels& chosen = default_kernels();
  return chosen;
}

bool takes_bf16_pairs(Activation activation) {
  return activation != Activation::kF32 && linear_kernels().bf16_pairs != nullptr;
}

void replace_linear_kernels_for_test(const LinearKernels* kernels) {
  replaced_kernels.store(kernels, std::memory_order_relaxed);
}

void linear(const Team& team, const LinearWeight& weight, const LinearInput& x, MatrixView<float> y,
            const LinearEpilogue& epilogue) {
  check_shapes(weight, x, y);
  if (x.rows() == 0) return;
  const LinearKernels& kernels = linear_kernels();
  for_each_tile(team, plan_tiles(team, weight, x), weight.out_features(), [&](const Tile& tile) {
    float* sums = floats_of(scratch().sums, tile.m_tiles.rows * tile.sums_stride);
    tile_sums(kernels, weight, x, tile, sums);
    const int64_t offset = tile.row * y.outer_stride() + tile.out;
    StoreTask task = {};
    task.sums = sums;
    task.sums_stride = tile.sums_stride;
    task.rows = tile.m_tiles.rows;
    task.outs = tile.outs;
    task.y = y.data() + offset;
    task.y_stride = y.outer_stride();
    task.bias = epilogue.bias.empty() ? nullptr : epilogue.bias.data() + tile.out;
    task.residual = epilogue.residual == nullptr ? nullptr : epilogue.residual + offset;
    task.round_to_bf16 = epilogue.round_to_bf16;
    kernels.store(task);
  });
}

void gate_up_swiglu(const Team& team, const LinearWeight& gate, const LinearWeight& up,
                    const LinearInput& x, std::span<const float> gate_bias,
                    std::span<const float> up_bias, MatrixView<float> y) {
  gate_up_swiglu(team, gate, x, up, x, gate_bias, up_bias, y);
}

void gate_up_swiglu(const Team& team, const LinearWeight& gate, const LinearInput& gate_x,
                    const LinearWeight& up, const LinearInput& up_x,
                    std::span<const float> gate_bias, std::span<const float> up_bias,
                    MatrixView<float> y) {
  check_shapes(gate, gate_x, y);
  check_shapes(up, up_x, y);
  if (gate_x.rows() == 0) return;
  const LinearKernels& kernels = linear_kernels();
  const TilePlan plan = plan_tiles(team, gate, gate_x, up, up_x);
  for_each_tile(team, plan, gate.out_features(), [&](const Tile& tile) {
    Tile up_tile = tile;
    if (tile.m_tiles.rows == up_x.rows()) up_tile.m_tiles = m_tiles_of(up, up_x);
    float* gate_sums = floats_of(scratch().sums, tile.m_tiles.rows * tile.sums_stride);
    float* up_sums = floats_of(scratch().other_sums, tile.m_tiles.rows * tile.sums_stride);
    tile_sums(kernels, gate, gate_x, tile, gate_sums);
    tile_sums(kernels, up, up_x, up_tile, up_sums);
    SwigluTask task = {};
    task.gate = gate_sums;
    task.up = up_sums;
    task.sums_stride = tile.sums_stride;
    task.rows = tile.m_tiles.rows;
    task.outs = tile.outs;
    task.y = y.data() + tile.row * y.outer_stride() + tile.out;
    task.y_stride = y.outer_stride();
    task.gate_bias = gate_bias.empty() ? nullptr : gate_bias.data() + tile.out;
    task.up_bias = up_bias.empty() ? nullptr : up_bias.data() + tile.out;
    kernels.swiglu(task);
  });
}

}  // namespace forerun
