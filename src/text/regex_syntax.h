// Translates a regular expression from Oniguruma's syntax (what tokenizer.json holds) to PCRE2's.
#pragma once

#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun::text {

// kUnsupported, naming the construct, for what means something else in PCRE2.
Result<std::string> translate_onig_to_pcre(std::string_view pattern);

}  // namespace forerun::text
