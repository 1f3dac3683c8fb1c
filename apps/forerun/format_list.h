// `forerun inspect --formats`: the formats of weights that are read.
#pragma once

#include <string>

namespace forerun::app {

// A Markdown table, the one of README.md and docs/gguf.md (tests/docs/examples_test.py compares
// them). Its lines follow from the tables of formats: a new block format, or one with a new kernel,
// appears by itself.
std::string format_list();

}  // namespace forerun::app
