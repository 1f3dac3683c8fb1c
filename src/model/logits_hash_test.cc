// Checks that the bits of logits do not change on CPUs, for several instruction sets, weights and
// activations.
#include <gtest/gtest.h>

#include <string>

#include "kernels/forced_isa_rig.h"
#include "model/logits_hash_rig.h"

namespace forerun {
namespace {

TEST(LogitsHash, BitsAreThoseOfTheGoldens) {
  LogitsHashes hashes(isa_name(current_isa()));
  for (const HashedModel& model : hashed_models()) {
    const TempDir dir;
    ASSERT_TRUE(write_toy_checkpoint(dir.path(), model.spec).ok());
    for (const Activation activation : {Activation::kF32, Activation::kBf16, Activation::kInt8}) {
      CpuDecoderOptions options;
      options.activation = activation;
      options.weights = model.weights;
      options.kv_blocks = 8;
      auto loaded = LoadedDecoder::open(dir.path(), 2, options);
      ASSERT_TRUE(loaded.ok()) << loaded.status().message();
      hashes.expect(model.name + ("-" + std::string(activation_name(activation))),
                    hash_of_passes(*loaded->decoder));
    }
  }
  if (!hashes.is_known()) {
    GTEST_SKIP() << "no goldens of this instruction set; its lines are\n" << hashes.lines();
  }
  if (HasFailure()) GTEST_FAIL() << "lines of this build:\n" << hashes.lines();
}

}  // namespace
}  // namespace forerun
