// What a request's output must be like: any text, JSON, or what a grammar describes.
//
// A model that reasons before it answers reasons freely: the format holds for the text behind the
// reasoning.
//
// Every token is drawn from those that keep the output within the format, with their own
// probabilities; it ends where the format lets it, so an output that was not cut by its length is
// whole. Speculation changes none of these tokens.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace forerun {

// Text before an output's own format: any, up to the first `close`. Up to two line breaks may
// follow; they belong neither to this text nor to the format.
struct OutputReasoning {
  std::string close = {};  // such as "</think>"; empty: the format holds from the first token on
  // The tag that opens the reasoning: an output that begins with it reasons first, any other output
  // follows the format at once. Empty: the prompt has opened the reasoning.
  std::string open = {};
  bool operator==(const OutputReasoning&) const = default;
};

struct OutputFormat {
  enum class Kind : uint8_t {
    kAny,
    kJsonObject,  // any JSON object
    kJsonSchema,  // JSON that a schema describes: `text` is the schema
    kGrammar,  // `text`: a grammar in GBNF, as llama.cpp's users write it; its root is the output
    kRegex     // `text`: a regular expression of ECMAScript's that the whole output matches
  };
  Kind kind = Kind::kAny;
  std::string text = {};
  // kGrammar: further rules, each a name and the JSON schema that defines it.
  std::vector<std::pair<std::string, std::string>> schemas = {};
  OutputReasoning reasoning = {};
};

}  // namespace forerun
