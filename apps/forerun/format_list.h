// `forerun inspect --formats`: lists the supported formats of weights.
#pragma once

#include <string>

namespace forerun::app {

// Returns a Markdown table, the one of README.md and docs/gguf.md (tests/docs/examples_test.py
// compares them). Its lines are derived from the tables of formats, so a new block format, or one
// with a new kernel, is included automatically.
std::string format_list();

}  // namespace forerun::app
