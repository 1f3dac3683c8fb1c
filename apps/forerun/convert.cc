#include "convert/convert.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "base/terminal_text.h"
#include "checkpoint/checkpoint.h"
#include "commands.h"
#include "convert/output_format.h"
#include "engine/load/numerics_options.h"
#include "interrupt.h"
#include "terminal.h"

namespace forerun::app {
namespace {

struct ConvertFlags {
  std::string input, output;
  std::string to, embedding, head;
  bool force = false;
};

Result<ConvertOptions> convert_options(const ConvertFlags& flags) {
  ConvertOptions options;
  FORERUN_ASSIGN_OR_RETURN(options.to, parse_output_format("--to", flags.to));
  if (!flags.embedding.empty()) {
    FORERUN_ASSIGN_OR_RETURN(options.embedding,
                             parse_output_format("--embedding", flags.embedding));
  }
  if (!flags.head.empty()) {
    FORERUN_ASSIGN_OR_RETURN(options.head, parse_output_format("--head", flags.head));
  }
  options.replace = flags.force;
  return options;
}

Status run_convert(const ConvertFlags& flags) {
  if (flags.input.empty() || flags.output.empty() || flags.to.empty()) {
    const char* const missing = flags.input.empty()    ? "no input"
                                : flags.output.empty() ? "no output"
                                                       : "no --to";
    return Status(StatusCode::kInvalidArgument,
                  std::string("found ") + missing +
                      "; accepted: forerun convert IN OUT --to FORMAT, one of " +
                      list_of(output_format_names()));
  }
  FORERUN_ASSIGN_OR_RETURN(ConvertOptions options, convert_options(flags));
  FORERUN_ASSIGN_OR_RETURN(const std::filesystem::path path, resolve_checkpoint(flags.input));
  FORERUN_ASSIGN_OR_RETURN(const Checkpoint input, Checkpoint::open(path));

  const InterruptGuard interrupts;
  ProgressBar bar;
  int last_tenth = 0;
  options.on_progress = [&](double fraction) {
    bar.update("converting", fraction);
    const int tenth = static_cast<int>(std::floor(10.0 * fraction));
    if (is_terminal(stderr) || tenth == last_tenth) return;
    last_tenth = tenth;
    std::cerr << "converting: " << 10 * tenth << " %\n";
  };
  options.is_cancelled = [] { return InterruptGuard::interrupted(); };
  const Result<Conversion> done = convert_checkpoint(input, flags.output, options);
  bar.clear();
  if (done.status().code() == StatusCode::kCancelled) {
    std::cerr << "forerun: interrupted; no output was written\n";
  }
  if (!done.ok()) return done.status();
  for (const std::string& note : done->notes) std::cerr << terminal_text(note) << '\n';
  std::cerr << terminal_text(flags.output) << ": " << format_bytes(static_cast<double>(done->bytes))
            << " of weights";
  if (done->num_kept > 0) {
    std::cerr << "; " << done->num_kept << " of " << done->num_weights
              << " tensors bit for bit as they were stored";
  }
  std::cerr << '\n';
  return Status();
}

}  // namespace

Command add_convert(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "convert", "Write a checkpoint as a GGUF file or a directory, in another format of weights");
  auto flags = std::make_shared<ConvertFlags>();
  command->add_option("input", flags->input,
                      "Checkpoint directory, GGUF file, or org/name in the cache");
  command->add_option("output", flags->output,
                      "OUT.gguf for a GGUF file, any other name for a directory of safetensors");
  command->add_option("--to", flags->to,
                      "Format of the linear layers: " + list_of(output_format_names()) +
                          ". A directory takes floats, and awq with groups of 128 inputs or "
                          "awq:64, awq:32; a GGUF file takes floats and blocks");
  command->add_option(
      "--embedding", flags->embedding,
      "Format of the embedding (default: q8_0 in a GGUF file whose layers have "
      "fewer than 8 bits, else as --to, but blocks with at most as many bits stay as "
      "stored; the input's floats beside awq)");
  command->add_option("--head", flags->head, "Format of the head (default: as --embedding)");
  command->add_flag("--force", flags->force, "Replace an output that is there");
  command->footer(
      "Example:\n  forerun convert models/demo-target target.gguf --to q8_0\n"
      "  forerun convert models/demo-draft draft-int4 --to awq:64");
  return {command, [flags] { return run_convert(*flags); }};
}

}  // namespace forerun::app
