#include "support/toy_model.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/gguf/toy_gguf.h"
#include "device/cpu/team.h"

namespace forerun::testing {
namespace {

// The printable character that byte-level vocabularies write for each byte.
std::string byte_character(int byte) {
  const auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int lower = 0; lower < byte; ++lower) code += printable(lower) ? 0 : 1;
  }
  std::string out;
  if (code < 0x80) return out + static_cast<char>(code);
  out += static_cast<char>(0xc0 | (code >> 6));
  out += static_cast<char>(0x80 | (code & 0x3f));
  return out;
}

std::string byte_tokenizer_json() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = byte_character(byte);
    vocab += byte > 0 ? ",\"" : "\"";
    vocab += (character == "\"" || character == "\\" ? "\\" : "") + character;
    vocab += "\":" + std::to_string(byte);
  }
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,)"
         R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,)"
         R"("use_regex":false},"post_processor":null,"decoder":{"type":"ByteLevel",)"
         R"("add_prefix_space":true,"trim_offsets":true,"use_regex":true},)"
         R"("model":{"type":"BPE","dropout":null,"unk_token":null,)"
         R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,)"
         R"("byte_fallback":false,"vocab":{)" +
         vocab + R"(},"merges":[]}})";
}

void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "toy model: %s\n", status.message().c_str());
  std::abort();
}

}  // namespace

ToySpec drafted_toy() {
  ToySpec spec;
  spec.dtype = DType::kBf16;
  spec.logit_std = 3.0f;
  spec.max_position = 512;
  return spec;
}

namespace {

// The bytes, and one token of two letters, since a vocabulary needs a merge.
void add_byte_tokenizer(GgufRig& rig) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(byte_character(byte));
  tokens.emplace_back("qz");
  rig.value("tokenizer.ggml.model", "gpt2")
      .value("tokenizer.ggml.pre", "gpt-2")
      .array("tokenizer.ggml.tokens", tokens)
      .array("tokenizer.ggml.token_type", std::vector<int32_t>(tokens.size(), 1))
      .array("tokenizer.ggml.merges", std::vector<std::string>{"q z"});
}

}  // namespace

Status write_toy_model(const std::filesystem::path& dir, const ToySpec& spec) {
  if (!spec.gguf_formats.empty()) {
    std::error_code error;
    std::filesystem::create_directories(dir, error);
    GgufRig rig = toy_gguf(spec);
    add_byte_tokenizer(rig);
    rig.write(dir / "toy.gguf");
    return {};
  }
  FORERUN_RETURN_IF_ERROR(write_toy_checkpoint(dir, spec));
  return write_text(dir / "tokenizer.json", byte_tokenizer_json());
}

namespace {

ToySpec perturbed(ToySpec spec, float perturbation) {
  spec.perturbation = perturbation;
  return spec;
}

}  // namespace

ToyPair::ToyPair(const ToySpec& target, float perturbation)
    : ToyPair(target, perturbed(target, perturbation)) {}

ToyPair::ToyPair(const ToySpec& target, const ToySpec& draft) {
  must(write_toy_model(dir_.path() / "target", target));
  must(write_toy_model(dir_.path() / "draft", draft));
}

const Tokenizer& toy_tokenizer() {
  static const Tokenizer tokenizer = [] {
    const TempDir dir;
    must(write_text(dir.path() / "tokenizer.json", byte_tokenizer_json()));
    Result<Tokenizer> loaded = Tokenizer::load(dir.path().string());
    must(loaded.status());
    return std::move(*loaded);
  }();
  return tokenizer;
}

std::string one_processor() {
  const std::vector<int32_t> cores = available_cores();
  const int32_t here = sched_getcpu();
  const bool is_mine = std::find(cores.begin(), cores.end(), here) != cores.end();
  return "cpu:" + std::to_string(is_mine ? here : cores.front());
}

std::vector<std::string> two_processors() {
  std::vector<std::string> names;
  for (const int32_t core : available_cores()) {
    if (names.size() < 2) names.push_back("cpu:" + std::to_string(core));
  }
  return names.size() == 2 ? names : std::vector<std::string>{};
}

bool releases_its_kv(const Engine& engine) {
  for (int tries = 0; tries < 20000; ++tries) {
    if (engine.kv_blocks_in_use() == 0) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return false;
}

Output drain(RequestStream& stream) {
  Output output;
  while (std::optional<Event> event = stream.next()) {
    output.tokens.insert(output.tokens.end(), event->tokens.begin(), event->tokens.end());
    output.logprobs.insert(output.logprobs.end(), event->logprobs.begin(), event->logprobs.end());
    output.prompt_logprobs.insert(output.prompt_logprobs.end(), event->prompt_logprobs.begin(),
                                  event->prompt_logprobs.end());
    output.text += event->text;
    if (!event->finished) continue;
    output.reason = event->reason;
    output.error = event->error;
    output.stats = std::move(event->stats);
  }
  return output;
}

Output complete(Engine& engine, const Request& request) {
  const auto stream = engine.submit(request);
  if (stream.ok()) return drain(**stream);
  Output output;
  output.error = stream.status();
  return output;
}

}  // namespace forerun::testing
