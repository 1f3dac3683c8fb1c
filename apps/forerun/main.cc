// The command line. Exit codes: 0 success, 1 a failure named on stderr, 2 invalid flags, 130 and
// 143 if Ctrl-C or SIGTERM ended a request early.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/terminal_text.h"
#include "commands.h"
#include "config_file.h"
#include "forerun/sigbus_handler.h"
#include "interrupt.h"
#include "launch.h"
#include "output.h"
#include "parse_error.h"
#include "terminal.h"

namespace forerun::app {
namespace {

// Prints one line on stderr; returns the process's exit code.
int fail(const std::string& message) {
  std::cerr << paint(stderr, Colour::kRed, "forerun: ") << terminal_text(message) << std::endl;
  return 1;
}

int run_parsed(const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const Status ran = command.run();
    const Status written = flush_stdout();
    if (ran.code() == StatusCode::kCancelled) return InterruptGuard::exit_code();
    if (!ran.ok()) return fail(ran.message());
    return written.ok() ? 0 : fail(written.message());
  }
  return 2;
}

// Converts `forerun help`, `forerun help generate` and `forerun version`, which other programs also
// have, to flags; in reverse order, as CLI11 takes them.
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && arguments.front() == "version") arguments.front() = "--version";
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.resize(std::min<size_t>(arguments.size(), 1));
    arguments.push_back("--help");
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Forerun: the same text, sooner. Exact speculative decoding for large language models.",
      "forerun");
  app.set_version_flag("--version", std::string("forerun ") + FORERUN_VERSION);
  app.set_config("--config", "", "Read flags from a TOML file: [generate] model = \"...\"");
  app.config_formatter(std::make_shared<TomlConfig>(app));
  app.require_subcommand(1);
  app.fallthrough();
  bool verbose = false;
  app.add_flag("-v,--verbose", verbose, "Log what the engine does to stderr");
  const std::vector<Command> commands = add_commands(app);
  try {
    app.parse(arguments_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      fail(describe_parse_error(app, error));
      return 2;
    }
    app.exit(error);  // prints the requested help or version
    const Status written = flush_stdout();
    return written.ok() ? 0 : fail(written.message());
  }
  set_log_sink([&](LogLevel level, std::string_view line) {
    if (verbose || level >= LogLevel::kWarning) std::cerr << terminal_text(line) << '\n';
  });
  return run_parsed(commands);
}

}  // namespace
}  // namespace forerun::app

int main(int argc, char** argv) {
  forerun::install_sigbus_handler();
  try {
    return forerun::app::leave_launch(forerun::app::run(argc, argv));
  } catch (const std::bad_alloc&) {
    return forerun::app::fail(
        "out of memory; a smaller model, --context or --kv-memory, or fewer requests need less");
  } catch (const std::exception& error) {
    return forerun::app::fail(std::string("defect, please report it: ") + error.what());
  }
}
