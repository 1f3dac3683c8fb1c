// The format of a request's output: any text, JSON, or a language that a grammar describes.
//
// A model that reasons before it answers reasons freely: the format applies to the text after the
// reasoning.
//
// Every token is drawn from the tokens that keep the output within the format, by their own
// probabilities. The output can end only where the format allows it, so an output that was not cut
// by its length is complete. Speculation does not change these tokens.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace forerun {

// Free text before the formatted output, up to the first `close`. Up to two line breaks may follow
// it; they belong neither to this text nor to the format.
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
