// Toy checkpoints with a tokenizer, so that a whole engine can be created on them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/testing.h"
#include "forerun/engine.h"
#include "text/tokenizer.h"

namespace forerun::testing {

// A toy with logits far enough apart that a draft is often right, and with room for 512 tokens.
ToySpec drafted_toy();

// write_toy_checkpoint plus a byte-level tokenizer.json of 256 tokens; or, with spec.gguf_formats,
// toy.gguf with the same tokens and one more, for which spec.vocab_size must have room.
Status write_toy_model(const std::filesystem::path& dir, const ToySpec& spec);

// A target and a draft that resembles it, in a directory that goes with the object.
class ToyPair {
 public:
  // `target`'s draft has the same shape with perturbed weights.
  explicit ToyPair(const ToySpec& target, float perturbation = 0.15f);
  ToyPair(const ToySpec& target, const ToySpec& draft);
  std::string target() const { return (dir_.path() / "target").string(); }
  std::string draft() const { return (dir_.path() / "draft").string(); }

 private:
  TempDir dir_;
};

// The tokenizer of every toy, made once.
const Tokenizer& toy_tokenizer();

// Appends `count` tokens of a toy's vocabulary, which has 256 unless its test says otherwise.
template <class Random>
void append_random_tokens(Random& random, uint64_t count, std::vector<int32_t>& tokens,
                          uint64_t vocab = 256) {
  for (; count > 0; --count) tokens.push_back(static_cast<int32_t>(random() % vocab));
}

// The device name of one processor, for an engine of one thread: the one on which the caller runs
// now, so that tests that run at the same time do not wait for the same processor.
std::string one_processor();
// Two processors that this process may use, as device names; empty where it has only one.
std::vector<std::string> two_processors();
// Waits some seconds until an engine holds no KV; returns whether it came to that. If models have
// threads of their own, a request's blocks return after the Step in flight.
bool releases_its_kv(const Engine& engine);

struct Output {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<std::vector<TokenLogprob>> logprobs;
  std::vector<std::vector<TokenLogprob>> prompt_logprobs;
  FinishReason reason = FinishReason::kError;
  Status error;
  RequestStats stats;
};

// Reads a stream to its end.
Output drain(RequestStream& stream);
// Submits and drains; a refused submission becomes kError.
Output complete(Engine& engine, const Request& request);

}  // namespace forerun::testing
