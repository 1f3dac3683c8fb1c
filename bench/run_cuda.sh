#!/bin/sh
# Checks and measures the CUDA backend on one GPU: run_cuda.sh DIR_WITH_BINARIES OUTPUT_DIR
# Stops if a test fails. The binaries need a driver and nothing else of CUDA, so they may be built
# elsewhere. FORERUN_COMMIT names the commit they were built from.
set -eu
binaries=$1
output=$2
mkdir -p "$output"
lines=$output/cuda-linear.lines
rm -f "$lines"
"$binaries/linear_cuda_test" --gtest_brief=1
"$binaries/linear_cuda_bench" --rows 1,8,16,32 --json "$lines"
"$binaries/linear_cuda_bench" --rows 64,256,1024 --filter 8b-int4 --json "$lines"
"$binaries/linear_cuda_bench" --forwards --rows 1,8,16,32 --json "$lines"
{ echo '['; sed '$!s/$/,/' "$lines"; echo ']'; } >"$output/cuda-linear.json"
rm -f "$lines"
