// What the lossless tests run: the lists of shapes, sources and precisions, requests that use every
// sampling parameter, and the comparison of outputs.
//
// Whoever adds a strategy, source, shape or precision adds it to these lists.
//
// FORERUN_TEST_DEVICES names the target's devices instead of processors (lossless_gpu_test:
// cuda:0), FORERUN_TEST_DRAFT_DEVICES those of a draft beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "support/toy_model.h"

namespace forerun::testing {

inline const std::vector<std::string> kShapes = {"adaptive", "chain", "best", "1,1,3,1,1", "2,2"};
inline const std::vector<std::string> kSources = {"model", "ngram", "suffix", "model+ngram",
                                                  "model+suffix"};

// What parallel_tree takes of them.
inline const std::vector<std::string> kParallelShapes = {"adaptive", "best"};
inline const std::vector<std::string> kParallelSources = {"model", "model+ngram", "model+suffix"};

// Whether the environment asks for GPUs.
bool on_gpu();

struct Precision {
  std::string name;
  ToySpec spec;
  std::string weights = "as_stored";
  std::string activations = "bf16";
};
std::vector<Precision> precisions();

// Fails the test and returns null where there is no engine. The environment's devices stand in for
// those given.
std::unique_ptr<Engine> make_engine(const std::string& target, const std::string& draft,
                                    const Precision& precision,
                                    const std::string& devices = "cpu:0",
                                    const std::string& draft_devices = "");

Request request_of(uint64_t seed, bool sampled);
std::string describe(const Request& request);
// All requests at once: they share Steps.
std::vector<Output> complete_together(Engine& engine, const std::vector<Request>& requests);
void expect_same(const Output& plain, const Output& output, const std::string& what);
// Every shape and source of parallel_tree.
std::vector<Request> parallel_requests(Request request);

}  // namespace forerun::testing
