// What a request's output must be like: any text, JSON, or what a grammar describes.
//
// A model that reasons before it answers does so freely: the format holds for what follows.
//
// Every token is drawn from those that keep the output within the format, with their own
// probabilities; it ends where the format lets it, so an output that was not cut by its length is
// whole. Exact under speculation as everything else.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace forerun {

// Text before an output's own format: any, up to the first `close`. The line breaks that may follow
// (two at most) belong to neither.
struct OutputReasoning {
  std::string close = {};  // such as "</think>"; empty: the format holds from the first token on
  // What opens it: an output that begins so reasons first, another follows the format at once.
  // Empty: the prompt has opened it.
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
