# The CUDA backend's operators and the device layer under them; included where FORERUN_CUDA is on.
add_subdirectory("${PROJECT_SOURCE_DIR}/src/device/cuda" "${PROJECT_BINARY_DIR}/src/device/cuda")

forerun_library(linear_cuda
  SOURCES linear/linear_plan_cuda.cc linear/linear_split_cuda.cc
          linear/linear_tile_plan_cuda.cc linear/linear_scratch_cuda.cc linear/linear_pack_cuda.cu
          linear/linear_round_cuda.cu
          linear/linear_ref_cuda.cu linear/linear_cuda.cu linear/linear_launch_cuda.cu
          linear/linear_tiles_cuda.cu linear/linear_wide_tiles_cuda.cu
          linear/linear_warpgroups_cuda.cu linear/linear_gather_cuda.cu
  DEPS device_cuda base)
forerun_test(linear_plan_cuda_test SOURCES linear/linear_plan_cuda_test.cc DEPS linear_cuda
  LABELS fast)
forerun_test(linear_cuda_test
  SOURCES linear/linear_cuda_test.cc linear/linear_row_bits_cuda_test.cc
          linear/linear_epilogue_cuda_test.cc linear/linear_norm_cuda_test.cc
          linear/linear_chain_cuda_test.cc linear/linear_round_cuda_test.cc
  DEPS linear_cuda LABELS gpu)
forerun_test(linear_reduce_cuda_test
  SOURCES linear/linear_reduce_cuda_test.cc linear/linear_reduce_order_cuda_test.cc
  DEPS linear_cuda LABELS gpu)
if(FORERUN_BENCHES)
  # Times graphs by the device's own clock, so it is a program of its own.
  add_executable(linear_cuda_bench linear/linear_cuda_bench.cu)
  target_link_libraries(linear_cuda_bench PRIVATE forerun_linear_cuda)
  add_executable(linear_reduce_cuda_bench linear/linear_reduce_cuda_bench.cc)
  target_link_libraries(linear_reduce_cuda_bench PRIVATE forerun_linear_cuda)
endif()

forerun_library(attention_cuda
  SOURCES attention/attention_plan_cuda.cc attention/attention_deal_cuda.cc
          attention/attention_run_deal_cuda.cc attention/attention_run_plan_cuda.cc
          attention/attention_cuda.cc attention/attention_rows_cuda.cu
          attention/attention_cluster_cuda.cu attention/attention_shared_cuda.cu
          attention/attention_runs_cuda.cu
          attention/attention_tiles_cuda.cu attention/kv_rows_cuda.cu
  DEPS device_cuda base attention linear_cuda)
forerun_test(attention_plan_cuda_test
  SOURCES attention/attention_plan_cuda_test.cc attention/attention_run_plan_cuda_test.cc
  DEPS attention_cuda LABELS fast)
forerun_test(attention_cuda_test SOURCES attention/attention_cuda_test.cc DEPS attention_cuda
  LABELS gpu)
if(FORERUN_BENCHES)
  add_executable(attention_cuda_bench attention/attention_cuda_bench.cc)
  target_link_libraries(attention_cuda_bench PRIVATE forerun_attention_cuda)
endif()
forerun_library(kv_select_cuda SOURCES kv_select/kv_select_cuda.cu DEPS device_cuda base attention_cuda)
forerun_test(kv_select_cuda_test SOURCES kv_select/kv_select_cuda_test.cc DEPS kv_select_cuda
  LABELS gpu)
forerun_library(embedding_cuda SOURCES embedding/embedding_cuda.cu DEPS device_cuda base)
forerun_library(row_digest_cuda SOURCES row_digest/row_digest_cuda.cu
  DEPS device_cuda base row_digest)
forerun_test(row_digest_cuda_test
  SOURCES row_digest/row_digest_cuda_test.cc row_digest/gumbel_cuda_test.cu
  DEPS row_digest_cuda sampling LABELS gpu)
if(FORERUN_BENCHES)
  add_executable(row_digest_cuda_bench row_digest/row_digest_cuda_bench.cc)
  target_link_libraries(row_digest_cuda_bench PRIVATE forerun_row_digest_cuda)
endif()

# All code that only a CUDA compiler sees: what a machine without a GPU can still check.
add_custom_target(cuda_code)
add_dependencies(cuda_code forerun_linear_cuda)
foreach(program peer_group_test linear_plan_cuda_test linear_cuda_test linear_reduce_cuda_test
        linear_cuda_bench linear_reduce_cuda_bench attention_plan_cuda_test
        attention_cuda_test attention_cuda_bench kv_select_cuda_test
        row_digest_cuda_test row_digest_cuda_bench)
  if(TARGET ${program})
    add_dependencies(cuda_code ${program})
  endif()
endforeach()
