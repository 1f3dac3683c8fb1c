// A command line that makes no sense, in one line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace forerun::app {

// "--model", ... of `app`, those aside that are not to be seen.
std::vector<std::string> flag_names(const CLI::App& app);
std::vector<std::string> command_names(const CLI::App& app);

// What was wrong with what `app` has parsed, and the way out: the nearest flag or command, or
// where what is accepted is listed.
std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace forerun::app
