// Forward declarations of CLI11's classes, for headers that only pass them on: CLI11's own header
// takes seconds to compile.
#pragma once

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI
