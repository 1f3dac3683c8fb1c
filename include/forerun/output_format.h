// The format of a request's output: any text, JSON, or a language that a grammar describes.
//
// A model that reasons before it answers reasons freely: the format applies only to the text after
// the reasoning.
//
// Every token is sampled from the tokens that keep the output within the format, in proportion to
// their probabilities. The output can end only where the format allows it, so an output is complete
// unless its length limit cut it. Speculation does not change these tokens.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace forerun {

// Free text before the formatted output, up to the first `close`. Up to two line breaks may follow
// it; they belong to neither part.
struct OutputReasoning {
  std::string close = {};  // such as "</think>"; empty: the format holds from the first token on
  // The tag that opens the reasoning. An output that begins with it reasons first; any other output
  // follows the format at once. Empty: the prompt has opened the reasoning.
  std::string open = {};
  bool operator==(const OutputReasoning&) const = default;
};

struct OutputFormat {
  enum class Kind : uint8_t {
    kAny,
    kJsonObject,  // any JSON object
    kJsonSchema,  // JSON that a schema describes: `text` is the schema
    kGrammar,     // `text` is a grammar in llama.cpp's GBNF; the output matches its root
    kRegex        // `text` is an ECMAScript regular expression that the whole output matches
  };
  Kind kind = Kind::kAny;
  std::string text = {};
  // Further rules for kGrammar: the name of each and the JSON schema that defines it.
  std::vector<std::pair<std::string, std::string>> schemas = {};
  OutputReasoning reasoning = {};
};

}  // namespace forerun
