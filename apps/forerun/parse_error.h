// Describes errors of the command line in one line.
#pragma once

#include <string>
#include <vector>

#include "cli11_names.h"

namespace forerun::app {

// Returns the names of the flags of `app`, such as "--model", without hidden flags.
std::vector<std::string> flag_names(const CLI::App& app);
std::vector<std::string> command_names(const CLI::App& app);

// Returns the error in the command line of `app`, and a remedy: the nearest flag or command, or
// where the accepted ones are listed.
std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace forerun::app
