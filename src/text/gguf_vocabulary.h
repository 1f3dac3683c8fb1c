// The tokenizer data of a GGUF file, which Tokenizer::from_gguf accepts. Readers of the file fill
// it from the metadata keys named below.
//
// The tokenizer made from it encodes and decodes as the model's tokenizer.json does, and has the
// same fingerprint(), with these exceptions. A GGUF file does not have the flags lstrip, rstrip and
// single_word of added tokens; they are taken to be false (Phi-3's special tokens have rstrip).
// llama.cpp's converter makes some tokens control tokens by their names although tokenizer.json
// does not call them special ("<|fim_prefix|>" of Qwen2.5): they are special here. The fingerprint
// then differs; check_same_tokenizer() accepts such a pair. Gemma's vocabularies are not compared
// with a tokenizer.json in tests.
//
// Accepted models (`model`):
//   gpt2   byte-level BPE. `merges` is required; `pre` names the family, whose normalizer and
//          pre-tokenizer are those of the family's tokenizer.json where that is known, else
//          llama.cpp's (gguf_pre_kinds.cc lists them).
//   llama  SentencePiece BPE with byte fallback (Llama 2, Mistral, TinyLlama). `scores` is
//          required; the merges follow from them as in transformers' converter. If the file
//          has `merges`, these are used instead. `pre` is ignored. U+2581 is put before a text and
//          before the text after a special token. If "[INST]" is a control token (Mistral's
//          vocabularies from version 2 on), it is put only before a text that does not begin with a
//          space, as the tokenizer.json of Mistral 7B v0.3 says.
// Fails with kUnsupported and the name for others.
//
// Tokens by their type:
//   1 normal        in the vocabulary.
//   2 unknown       as control.
//   3 control       special added tokens.
//   4 user defined  added tokens that are not special.
//   5 unused        as normal; but "[PAD<id>]", which llama.cpp's converter writes up to the number
//                   of rows of the embedding, is not a token.
//   6 byte          "<0x00>" to "<0xFF>" with llama; as normal with gpt2.
// An empty token is not a token: its id decodes to nothing, and vocab_size() may count it.
//
// Refused, with the name of the key: no tokens; a number of types or scores that differs from the
// number of tokens; a repeated token (llama.cpp refuses it as well, since the id of its text would
// be a guess) or one that is not UTF-8; merges with unknown tokens; ids and types out of range;
// and, if merges must follow from scores, scores that are all equal (converters that do not know
// the scores write -1000 for each token).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forerun {

struct GgufVocabulary {
  std::string model;  // tokenizer.ggml.model
  std::string pre;    // tokenizer.ggml.pre; empty if absent

  enum TokenType : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

  std::vector<std::string_view> tokens;  // indexed by id: tokenizer.ggml.tokens
  std::vector<int32_t> types;            // indexed by id: tokenizer.ggml.token_type
  std::vector<float> scores;  // indexed by id: tokenizer.ggml.scores; may be absent for gpt2
  std::vector<std::string_view> merges;  // tokenizer.ggml.merges, "left right" in order of rank

  // tokenizer.ggml.*_token_id. If absent, llama has llama.cpp's defaults: bos 1, eos 2, unk 0.
  std::optional<int32_t> bos, eos, eot, eom, unk, pad;

  // tokenizer.ggml.add_bos_token and add_eos_token: whether encode() puts the token before or after
  // a text if EncodeOptions asks for it. If absent, add_bos has llama.cpp's default: true for llama
  // and for the kinds with add_bos (gguf_pre_kinds.h), else false; add_eos is false.
  std::optional<bool> add_bos, add_eos;
  // tokenizer.ggml.add_space_prefix: whether a text starts with U+2581. Absent: true for llama.
  // gpt2 refuses true.
  std::optional<bool> add_space_prefix;
  // tokenizer.ggml.remove_extra_whitespaces; true is refused.
  std::optional<bool> remove_extra_whitespaces;
};

}  // namespace forerun
