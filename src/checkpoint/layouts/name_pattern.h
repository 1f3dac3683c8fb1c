// Names of layers as quantization_config lists them: whole names, parts of names, or "re:" and a
// Python pattern. Internal to checkpoint/.
//
// Thread rules: pure functions.
#pragma once

#include <string_view>

namespace forerun {

// Whether `pattern` names the layer `name`: "re:PATTERN" as Python's re.match() does, which begins
// at the first character and may end anywhere; anything else as the whole name or, without
// `in_full`, as a part of it. An empty pattern names nothing.
bool matches_layer(std::string_view pattern, std::string_view name, bool in_full);

// Whether `pattern` names the layer, or a module that holds it, beyond doubt: "re:PATTERN" as
// above, anything else as a run of whole words between dots. "mlp.gate", which a mixture of experts
// leaves out, is a part of the name of "mlp.gate_proj", but says nothing about it.
bool matches_words(std::string_view pattern, std::string_view name);

// Whether matches_layer() can read `pattern`: characters, ".", sets, \d \w \s and escaped
// punctuation, groups, "|", "*", "+", "?", "^", "$", lookahead. Counted repeats, references to
// groups and lookbehind cannot be read.
bool is_readable_pattern(std::string_view pattern);

}  // namespace forerun
