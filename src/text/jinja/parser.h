// Template source to a tree.
#pragma once

#include <string_view>

#include "forerun/status.h"
#include "text/jinja/ast.h"

namespace forerun::text::jinja {

// kInvalidArgument with the line for a broken template, kUnsupported for Jinja that chat templates
// do not use (extends, include, import, block, recursive loops).
Result<Body> parse_template(std::string_view source);

}  // namespace forerun::text::jinja
