#!/bin/sh
# Checks and measures the CUDA backend on one GPU:
#   run_cuda.sh DIR_WITH_BINARIES OUTPUT_DIR [CHECKPOINT ...]
# Whole forwards are timed for the demo target and the checkpoints (tools/random_checkpoint.py).
# Stops if a test fails. The binaries need a driver and nothing else of CUDA, so they may be built
# elsewhere. FORERUN_COMMIT names the commit they were built from.
set -eu
binaries=$1
output=$2
shift 2
mkdir -p "$output"
lines=$output/cuda-linear.lines
forwards=$output/cuda-decoder.lines
rm -f "$lines" "$forwards"
"$binaries/linear_cuda_test" --gtest_brief=1
"$binaries/decoder_cuda_test" --gtest_brief=1
for model in models/demo-target "$@"; do
  "$binaries/decoder_cuda_bench" "$model" --rows 1,8,16,32 --json "$forwards"
  "$binaries/decoder_cuda_bench" "$model" --rows 1,8 --context 7000 --json "$forwards"
done
{ echo '['; sed '$!s/$/,/' "$forwards"; echo ']'; } >"$output/cuda-decoder.json"
rm -f "$forwards"
"$binaries/linear_cuda_bench" --rows 1,8,16,32 --json "$lines"
"$binaries/linear_cuda_bench" --rows 64,256,1024 --filter 8b-int4 --json "$lines"
"$binaries/linear_cuda_bench" --forwards --rows 1,8,16,32 --json "$lines"
{ echo '['; sed '$!s/$/,/' "$lines"; echo ']'; } >"$output/cuda-linear.json"
rm -f "$lines"
