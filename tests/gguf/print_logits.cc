// Writes the logits of every token of a prompt to standard output, f32 [tokens][vocab_size],
// little-endian: for gguf_test.py.
//
//   print_logits CHECKPOINT TOKENS ACTIVATION ROWS
//
// CHECKPOINT is what Checkpoint::open takes, TOKENS are ids with commas between, ACTIVATION is f32,
// bf16 or int8, and ROWS the number of tokens in each Step.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "model/testing.h"

namespace forerun {
namespace {

// A number that is all of `text`, or nothing.
std::optional<int32_t> number(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<std::vector<int32_t>> read_tokens(std::string_view text) {
  std::vector<int32_t> tokens;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::optional<int32_t> token = number(text.substr(0, comma));
    if (!token) {
      return Status(StatusCode::kInvalidArgument,
                    "TOKENS: found " + std::string(text) + "; accepted: ids with commas between");
    }
    tokens.push_back(*token);
    if (comma == text.size()) return tokens;
    text.remove_prefix(comma + 1);
  }
}

Result<Activation> read_activation(std::string_view text) {
  for (const Activation activation : {Activation::kF32, Activation::kBf16, Activation::kInt8}) {
    if (text == activation_name(activation)) return activation;
  }
  return Status(StatusCode::kInvalidArgument,
                "ACTIVATION: found " + std::string(text) + "; accepted: f32, bf16 or int8");
}

Result<std::vector<float>> logits_of(const char* checkpoint, std::string_view tokens_text,
                                     std::string_view activation_text, std::string_view rows_text) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, read_tokens(tokens_text));
  CpuDecoderOptions options;
  FORERUN_ASSIGN_OR_RETURN(options.activation, read_activation(activation_text));
  const std::optional<int32_t> rows = number(rows_text);
  if (!rows || *rows < 1) {
    return Status(StatusCode::kInvalidArgument,
                  "ROWS: found " + std::string(rows_text) + "; accepted: 1 or more");
  }
  std::vector<int32_t> blocks = SequenceDriver::blocks_for(static_cast<int64_t>(tokens.size()));
  options.kv_blocks = static_cast<int64_t>(blocks.size());
  FORERUN_ASSIGN_OR_RETURN(const LoadedDecoder loaded, LoadedDecoder::open(checkpoint, 2, options));
  return SequenceDriver(loaded.decoder.get(), std::move(blocks)).run(tokens, 0, *rows);
}

int run(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: print_logits CHECKPOINT TOKENS ACTIVATION ROWS\n");
    return 2;
  }
  const auto logits = logits_of(argv[1], argv[2], argv[3], argv[4]);
  if (!logits.ok()) {
    std::fprintf(stderr, "print_logits: %s\n", logits.status().message().c_str());
    return 1;
  }
  const size_t written = std::fwrite(logits->data(), sizeof(float), logits->size(), stdout);
  return written == logits->size() && std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) { return forerun::run(argc, argv); }
