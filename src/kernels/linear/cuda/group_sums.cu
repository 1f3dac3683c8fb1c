// Computes sums of activations (linear/cuda/group_sums.h) once for all blocks of a launch. Up to 8
// rows the linear kernels compute them, with the same bits: a launch would take longer.
#include "base/status_macros.h"
#include "kernels/cuda/launch.h"
#include "kernels/linear/cuda/group_sums.h"
#include "kernels/linear/cuda/kernels.h"
#include "kernels/linear/cuda/ring.h"

namespace forerun::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

struct GroupSumsArgs {
  const uint16_t* input;
  int64_t input_stride;
  const int32_t* row_index;
  uint2* sums;
  int rows, eights, units;  // `eights`: 8 rows each
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A warp has 8 rows and 128 inputs.
template <int kGroupSteps>
__global__ void __launch_bounds__(kThreads) group_sums_kernel(GroupSumsArgs args) {
  launch_dependents();
  wait_for_previous_kernel();
  const int lane = threadIdx.x % 32;
  const int work = blockIdx.x * kWarps + threadIdx.x / 32;
  if (work >= args.eights * args.units) return;
  const int unit = work / args.eights;
  int row = min((work - unit * args.eights) * 8 + lane / 4, args.rows - 1);
  if (args.row_index != nullptr) row = args.row_index[row];
  // Which of the 16 inputs of a step a register has does not matter.
  const auto* const from =
      reinterpret_cast<const uint2*>(args.input + row * args.input_stride) + unit * 32 + lane % 4;
  uint2 activations[8];
#pragma unroll
  for (int step = 0; step < 8; ++step) activations[step] = from[step * 4];
  GroupSums<kGroupSteps> sums;
#pragma unroll
  for (int step = 0; step < 8; ++step) {
    sums.add(step, lane, activations[step].x, activations[step].y);
  }
  const uint2 operand = sums.operand();
  constexpr int kPairs = 4 / kGroupSteps;
  if (lane % 4 < kPairs) {
    args.sums[(static_cast<int64_t>(work) * 8 + lane / 4) * kPairs + lane % 4] = operand;
  }
}

#else

template <int kGroupSteps>
__global__ void group_sums_kernel(GroupSumsArgs) {}

#endif

using GroupSumsKernel = void (*)(GroupSumsArgs);
GroupSumsKernel kernel_for(int groups) {
  return groups == 8 ? group_sums_kernel<1> : group_sums_kernel<2>;
}

}  // namespace

Status prepare_group_sums() {
  FORERUN_RETURN_IF_ERROR(prefer_shared_memory(kernel_for(4), "loading the sums of activations"));
  return prefer_shared_memory(kernel_for(8), "loading the sums of activations");
}

Status launch_group_sums(const LinearPlan& plan, const LinearCall& call, cudaStream_t stream) {
  const int groups = min_groups(plan.format);
  const int eights = (call.rows + 7) / 8;
  // The kernel for many rows always is.
  const bool is_dependent =
      call.dependent || (call.rows >= kFewestTileRows && call.row_index == nullptr);
  const GroupSumsArgs args = {call.input,     call.input_stride,
                              call.row_index, reinterpret_cast<uint2*>(call.scratch.group_sums),
                              call.rows,      eights,
                              plan.units};
  return launch_in_clusters(kernel_for(groups), 0, is_dependent,
                            dim3(static_cast<unsigned>(ceil_div(eights * plan.units, kWarps))),
                            dim3(kThreads), 0, stream, "adding up activations", args);
}

}  // namespace forerun::cuda
