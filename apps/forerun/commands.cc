#include "commands.h"

#include "launch.h"

namespace forerun::app {

std::vector<Command> add_commands(CLI::App& app) {
  return {add_generate(app),   add_chat(app),    add_serve(app),       add_bench(app),
          add_inspect(app),    add_convert(app), add_plan(app),        add_trace(app),
          add_completion(app), add_man(app),     add_serve_launch(app)};
}

}  // namespace forerun::app
