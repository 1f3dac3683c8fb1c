// Translates a regular expression from Oniguruma's syntax (that of tokenizer.json) to PCRE2's.
#pragma once

#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun::text {

// Fails with kUnsupported, naming the construct, if it has another meaning in PCRE2.
Result<std::string> translate_onig_to_pcre(std::string_view pattern);

}  // namespace forerun::text
