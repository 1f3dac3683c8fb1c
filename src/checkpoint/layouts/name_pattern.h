// Names of layers in quantization_config: whole names, parts of names, or "re:" and a Python
// pattern. Internal to checkpoint/.
//
// All functions are pure.
#pragma once

#include <string_view>

namespace forerun {

// Returns whether `pattern` matches the layer `name`. "re:PATTERN" works as Python's re.match(),
// which begins at the first character and may end anywhere; anything else is the whole name or,
// without `in_full`, a part of it. An empty pattern matches nothing.
bool matches_layer(std::string_view pattern, std::string_view name, bool in_full);

// Returns whether `pattern` certainly names the layer or a module that contains it: "re:PATTERN" as
// above, anything else as a sequence of whole words between dots. "mlp.gate", which a mixture of
// experts leaves out, is a part of the name of "mlp.gate_proj", but does not mean that layer.
bool matches_words(std::string_view pattern, std::string_view name);

// Returns whether matches_layer() supports `pattern`: characters, ".", sets, \d \w \s and escaped
// punctuation, groups, "|", "*", "+", "?", "^", "$", lookahead. It does not support counted
// repeats, references to groups and lookbehind.
bool is_readable_pattern(std::string_view pattern);

}  // namespace forerun
