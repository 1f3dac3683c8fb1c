// Checks that the bits of logits do not change on GPUs, for several weights, on one GPU and on two
// shards.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/cuda/cuda_testing.h"
#include "model/cuda/load_decoder.h"
#include "model/logits_hash_rig.h"

namespace forerun {
namespace {

TEST(LogitsHashCuda, BitsAreThoseOfTheGoldens) {
  SKIP_WITHOUT_GPUS(1);
  LogitsHashes hashes("sm90");
  for (const HashedModel& model : hashed_models()) {
    if (model.weights != WeightOverride::kAsStored) continue;
    const TempDir dir;
    ASSERT_TRUE(write_toy_checkpoint(dir.path(), model.spec).ok());
    const auto checkpoint = Checkpoint::open(dir.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    cuda::DecoderCudaOptions options;
    options.devices = {0};
    options.kv_blocks = 8;
    auto decoder = cuda::load_decoder_cuda(*checkpoint, options);
    ASSERT_TRUE(decoder.ok()) << decoder.status().message();
    hashes.expect(model.name, hash_of_passes(**decoder));
  }
  if (!hashes.is_known()) GTEST_SKIP() << "no goldens; the lines are\n" << hashes.lines();
  if (HasFailure()) GTEST_FAIL() << "lines of this build:\n" << hashes.lines();
}

}  // namespace
}  // namespace forerun
