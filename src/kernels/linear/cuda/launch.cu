// Launches linear layers: chooses the kernel and its arguments.
#include <bit>
#include <limits>
#include <string>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda/kernels.h"
#include "kernels/linear/cuda/linear.h"
#include "kernels/linear/cuda/ring.h"

namespace forerun::cuda {
namespace {

// Returns the bytes of shared memory that a block may request. Fails on a device that cannot run
// the kernels.
Result<int> shared_limit() {
  int device = 0;
  int major = 0;
  int limit = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device), "asking for the current GPU");
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
      "asking for the compute capability");
  // No later GPU has the instructions of sm_90a.
  if (major != 9) {
    return Status(StatusCode::kUnsupported,
                  "linear on a GPU: found cuda:" + std::to_string(device) +
                      " of compute capability " + std::to_string(major) + ".x; accepted: 9.0");
  }
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
      "asking for the shared memory of a block");
  return limit;
}

// Returns whether the kernel for many rows takes the call.
bool takes_tiles(const LinearCall& call) {
  return call.rows >= kFewestTileRows && call.row_index == nullptr;
}

bool needs_group_sums(const LinearPlan& plan, const LinearCall& call) {
  return min_groups(plan.format) > 0 && call.rows > 8;
}

Status check_linear_call(const LinearWeightCuda& weight, const LinearCall& call) {
  const LinearPlan& plan = weight.plan();
  const int64_t outputs = call.gated ? plan.out_features / 2 : plan.out_features;
  const auto refuse = [](const std::string& what) {
    return Status(StatusCode::kInvalidArgument, "linear on a GPU: " + what);
  };
  if (call.rows < 1) {
    return refuse("found " + std::to_string(call.rows) + " rows; accepted: at least 1");
  }
  if (call.input == nullptr) return refuse("found no input; accepted: one");
  if ((call.output == nullptr) == (call.output_f32 == nullptr)) {
    return refuse(std::string("found ") + (call.output == nullptr ? "neither" : "both") +
                  " of output and output_f32; accepted: one of them");
  }
  if (call.output_f32 != nullptr && (call.gated || call.residual != nullptr)) {
    return refuse("found output_f32 with gated or residual; accepted: output with them");
  }
  if (call.input_stride < plan.in_features || call.input_stride % 8 != 0) {
    return refuse("found input_stride " + std::to_string(call.input_stride) +
                  "; accepted: multiples of 8 from " + std::to_string(plan.in_features) + " on");
  }
  if (call.output_stride < outputs || call.output_stride % 4 != 0) {
    return refuse("found output_stride " + std::to_string(call.output_stride) +
                  "; accepted: multiples of 4 from " + std::to_string(outputs) + " on");
  }
  if (call.rows * call.output_stride > std::numeric_limits<int32_t>::max()) {
    return refuse("the outputs of a call must be fewer than 2^31");
  }
  if (call.gated && call.row_index != nullptr) {
    return refuse("row_index does not go with gated");
  }
  if (call.gated && (call.bias != nullptr || call.residual != nullptr)) {
    return refuse("a gated layer takes neither bias nor residual");
  }
  if (call.gated && plan.out_features % kTileOutputs != 0) {
    return refuse("a gated layer's outputs must be a multiple of 32");
  }
  if (call.next_norm.weight != nullptr) {
    if (call.next_norm.scaled == nullptr || call.next_norm.squares == nullptr) {
      return refuse("next_norm needs scaled and squares");
    }
    if (call.gated || call.output == nullptr || plan.out_features % kTileOutputs != 0) {
      return refuse("next_norm needs bf16 outputs, a multiple of 32, and does not go with gated");
    }
  }
  if (takes_tiles(call) && call.rows > kMaxLinearRows) {
    return refuse("found " + std::to_string(call.rows) + " rows; accepted: up to " +
                  std::to_string(kMaxLinearRows));
  }
  if (takes_tiles(call) && call.scratch.sums == nullptr) {
    return refuse("found " + std::to_string(call.rows) +
                  " rows without scratch memory; accepted: scratch memory, or fewer rows");
  }
  if (needs_group_sums(plan, call)) {
    if (call.scratch.group_sums == nullptr) {
      return refuse("found " + std::to_string(call.rows) + " rows of a weight in " +
                    unit_format(plan.format).name +
                    " without scratch memory; accepted: scratch memory, or up to 8 rows");
    }
    const size_t eights = static_cast<size_t>(call.rows + 7) / 8 * static_cast<size_t>(plan.units);
    const auto bytes = static_cast<size_t>(group_sum_bytes(min_groups(plan.format)));
    if (eights * bytes > kGroupSumsBytes) {
      return refuse("found " + std::to_string(call.rows) + " rows of " +
                    std::to_string(plan.in_features) + " inputs of a weight in " +
                    unit_format(plan.format).name + "; accepted: as many as have " +
                    std::to_string(kGroupSumsBytes / bytes) + " times 8 x 128 inputs");
    }
  }
  if (plan.format == LinearFormat::kInt8Group64 && (call.gated || call.reduce != nullptr)) {
    return refuse("int8 supports neither gated nor reduce");
  }
  if (call.reduce == nullptr) return {};
  if (call.gated || call.norm.squares != nullptr || call.output == nullptr) {
    return refuse("reduce needs bf16 outputs and goes with neither norm nor gated");
  }
  if (call.mailbox != 0 && call.mailbox != 1) return refuse("mailbox must be 0 or 1");
  const int64_t words = int64_t{plan.tiles} * ((call.rows + 7) / 8) * 32;
  if (words > call.reduce->slot_words) {
    return refuse("the outputs of all rows do not fit in the group's mailboxes");
  }
  return {};
}

}  // namespace

Status prepare_linear_cuda() {
  FORERUN_ASSIGN_OR_RETURN(const int limit, shared_limit());
  for (const UnitFormat& each : kUnitFormats) {
    const LinearFormat format = each.format;
    for (const int n8_tiles : {1, 2, 4}) {
      for (const TileSchedule schedule :
           {TileSchedule::kMultiPass, TileSchedule::kSinglePass, TileSchedule::kManyWarps}) {
        if (format != LinearFormat::kInt4Group128 && schedule == TileSchedule::kManyWarps) continue;
        for (const EpilogueKind epilogue :
             {EpilogueKind::kPlain, EpilogueKind::kGated, EpilogueKind::kRuntime}) {
          if (is_grouped(format) && epilogue != EpilogueKind::kRuntime) continue;
          FORERUN_RETURN_IF_ERROR(
              allow_shared_memory(linear_kernel_for({format, n8_tiles, epilogue, schedule}), limit,
                                  "loading the linear kernels"));
        }
      }
    }
  }
  FORERUN_RETURN_IF_ERROR(
      allow_shared_memory(linear_kernel_for({.format = LinearFormat::kInt4Group128,
                                             .n8_tiles = 2,
                                             .epilogue = EpilogueKind::kPlain,
                                             .schedule = TileSchedule::kManyWarps,
                                             .few_registers = true}),
                          limit, "loading the linear kernels"));
  FORERUN_RETURN_IF_ERROR(prepare_group_sums());
  FORERUN_RETURN_IF_ERROR(prepare_linear_warpgroups());
  return prepare_linear_tiles();
}

Status linear_cuda(const LinearWeightCuda& weight, const LinearCall& call, cudaStream_t stream) {
  FORERUN_RETURN_IF_ERROR(check_linear_call(weight, call));
  const LinearPlan& plan = weight.plan();
  FORERUN_ASSIGN_OR_RETURN(const int limit, shared_limit());
  LinearKernelArgs args = {};
  args.weight = weight.data();
  args.input = call.input;
  args.output = call.output;
  args.output_f32 = call.output_f32;
  args.bias = call.bias;
  args.residual = call.residual;
  args.row_index = call.row_index;
  args.input_squares = call.norm.squares;
  args.norm_eps = call.norm.eps;
  args.next_norm = call.next_norm;
  args.gated = call.gated;
  args.gated_format = call.gated_format;
  args.input_stride = call.input_stride;
  args.output_stride = call.output_stride;
  args.rows = call.rows;
  args.inputs = static_cast<int>(plan.in_features);
  args.inverse_inputs = 1.0f / static_cast<float>(plan.in_features);
  args.outputs = static_cast<int>(call.gated ? plan.out_features / 2 : plan.out_features);
  args.units = plan.units;
  args.cluster_size = plan.cluster_size;
  args.cluster_inverse = ((1u << 16) - 1) / static_cast<unsigned>(plan.cluster_size) + 1;
  args.block_units = plan.units / plan.cluster_size;
  args.smaller_blocks = plan.cluster_size - plan.units % plan.cluster_size;
  args.slice_k_warps_log2 = std::countr_zero(static_cast<unsigned>(plan.slice_k_warps));
  args.cluster_tiles = plan.tiles / plan.clusters;
  args.larger_clusters = plan.tiles % plan.clusters;
  if (call.reduce != nullptr) {
    args.peers = call.reduce->turn(call.mailbox);
    args.two_shot = int64_t{2} * call.rows * plan.out_features >= call.reduce->two_shot_bytes;
  }
  if (needs_group_sums(plan, call)) {
    FORERUN_RETURN_IF_ERROR(launch_group_sums(plan, call, stream));
    args.group_sums = reinterpret_cast<const uint2*>(call.scratch.group_sums);
  }
  if (takes_tiles(call)) return launch_linear_tiles(plan, call, args, stream);
  if (takes_warpgroups(plan, call)) return launch_linear_warpgroups(plan, call, args, stream);
  // Only the kernel for plain outputs has a variant with few registers.
  const bool is_plain = !call.gated && !call.shares_reduce_kernel && call.reduce == nullptr;
  const LinearFootprint footprint = call.footprint == LinearFootprint::kBesideAttention && !is_plain
                                        ? LinearFootprint::kHalf
                                        : call.footprint;
  FORERUN_ASSIGN_OR_RETURN(const LinearLaunch launch,
                           plan_launch(plan, call.rows, limit, footprint));
  args.stages = launch.stages;
  args.segment_units = launch.segment_units;
  args.segment_bytes = launch.segment_units * plan.slice_k_warps * unit_inputs(plan.format) * 2;
  args.segments = launch.segments;
  args.input_buffers = launch.input_buffers;
  args.input_stride_bytes = launch.input_stride_bytes;
  args.slice_k_offset = launch.slice_k_offset;
  args.receive_offset = launch.receive_offset;
  args.ring_offset = launch.ring_offset;
  args.receive_buffer_bytes = launch.receive_buffer_bytes;
  args.receive_places = launch.receive_places;
  args.input_rows = launch.input_rows;
  args.tile_warps = launch.tile_warps;
  args.warps = launch.tile_warps * plan.slice_k_warps;

  const bool any = call.reduce != nullptr || call.shares_reduce_kernel || is_grouped(plan.format);
  const EpilogueKind epilogue = any          ? EpilogueKind::kRuntime
                                : call.gated ? EpilogueKind::kGated
                                             : EpilogueKind::kPlain;
  const LinearKernel kernel = linear_kernel_for(
      {plan.format, launch.n8_tiles, epilogue, launch.schedule, launch.few_registers});
  return launch_in_clusters(kernel, plan.cluster_size, call.dependent,
                            dim3(static_cast<unsigned>(plan.clusters * plan.cluster_size),
                                 static_cast<unsigned>(launch.row_tiles)),
                            dim3(32 * static_cast<unsigned>(args.warps + launch.producer_warps)),
                            static_cast<size_t>(launch.shared_bytes), stream,
                            "launching a linear layer", args);
}

}  // namespace forerun::cuda
