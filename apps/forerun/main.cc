// The command line. Exit codes: 0 success, 1 a failure named on stderr, 2 flags that make no sense.
#include <CLI/CLI.hpp>
#include <iostream>
#include <vector>

#include "base/log.h"
#include "commands.h"
#include "terminal.h"

int main(int argc, char** argv) {
  using forerun::app::Command;
  CLI::App app(
      "Forerun: the same text, sooner. Exact speculative decoding for large language models.",
      "forerun");
  app.set_version_flag("--version", std::string("forerun ") + FORERUN_VERSION);
  app.set_config("--config", "", "Read flags from a TOML or INI file: [generate] model = \"...\"");
  app.require_subcommand(1);
  app.fallthrough();
  bool verbose = false;
  app.add_flag("-v,--verbose", verbose, "Log what the engine does to stderr");
  const std::vector<Command> commands = {
      forerun::app::add_generate(app), forerun::app::add_chat(app), forerun::app::add_bench(app),
      forerun::app::add_inspect(app),  forerun::app::add_plan(app), forerun::app::add_trace(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  forerun::set_log_sink([&](forerun::LogLevel level, std::string_view line) {
    if (verbose || level >= forerun::LogLevel::kWarning) std::cerr << line << '\n';
  });
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const forerun::Status status = command.run();
    if (status.ok()) return 0;
    std::cerr << forerun::app::paint(stderr, forerun::app::Colour::kRed, "forerun: ")
              << status.message() << std::endl;
    return 1;
  }
  return 2;
}
