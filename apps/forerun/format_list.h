// `forerun inspect --formats`: the formats of weights that are read.
#pragma once

#include <string>

namespace forerun::app {

// A Markdown table, the one of docs/gguf.md.
std::string format_list();

}  // namespace forerun::app
