// The cases of the lossless tests: every policy of strategies/every_policy.h, the precisions,
// requests that use every sampling parameter, and the comparison of outputs.
//
// A new strategy, source or shape is included through its line in the table; a new precision must
// be added to precisions().
//
// FORERUN_TEST_PART=4 runs a fourth of the product: of every pair of parameters (precision and
// policy, policy and seed, stages and precision, ...) something still runs. Without it all of it
// runs.
//
// FORERUN_TEST_DEVICES names the target's devices instead of processors (lossless_gpu_test:
// cuda:0), FORERUN_TEST_DRAFT_DEVICES those of a draft beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/test_part.h"
#include "forerun/engine.h"
#include "support/toy_model.h"

namespace forerun::testing {

// Whether the environment asks for GPUs.
bool on_gpu();

struct Precision {
  std::string name;
  ToySpec spec;
  std::string weights = "as_stored";
  std::string activations = "bf16";
  bool draft_is_head = false;  // the draft is a trained head
};
std::vector<Precision> precisions();

// Fails the test and returns null if there is no engine. Devices of the environment replace the
// given ones. Uses everything in `options` except models, numerics and devices.
std::unique_ptr<Engine> make_engine(const std::string& target, const std::string& draft,
                                    const Precision& precision,
                                    const std::string& devices = one_processor(),
                                    const std::string& draft_devices = "",
                                    EngineOptions options = {});

Request request_of(uint64_t seed, bool sampled);
// Sets the length of the request, and lowers min_new_tokens to half of it if that is larger.
void set_length(Request& request, int32_t max_new_tokens);
std::string describe(const Request& request);
// Runs all requests at once, so that they share Steps.
std::vector<Output> complete_together(Engine& engine, const std::vector<Request>& requests);
void expect_same(const Output& plain, const Output& output, const std::string& what);
// Returns `request` once for each policy that gives plain decoding's tokens at its temperature and
// that a model of this precision accepts; if `strategy` is not empty, for its policies only.
std::vector<Request> by_every_policy(Request request, const Precision& precision,
                                     const std::string& strategy = "");
// Every `step`-th request; `turn` chooses the first one, so that consecutive turns cover all
// requests.
std::vector<Request> slice(const std::vector<Request>& requests, size_t step, size_t turn);
// slice() with step test_part(): all requests where everything is to run.
std::vector<Request> part_of(const std::vector<Request>& requests, size_t turn);
// Whether combination number `turn` is among those that are to run: every test_part()-th is.
bool runs(size_t turn);
// What the part that runs must have more of, where the whole product has more than `least`: a
// fourth of its share, since combinations differ: at depth 1 a view is hardly wrong.
int64_t in_part(int64_t least);

}  // namespace forerun::testing
