// Continues a prompt through the installed library: application MODEL DRAFT PROMPT
#include <forerun/engine.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  forerun::EngineOptions options;
  options.model = argv[1];
  options.draft = argv[2];
  options.cost_cache = forerun::default_cost_cache();  // later starts need not measure
  auto engine = forerun::Engine::create(options);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.status().message().c_str());
    return 1;
  }
  forerun::Request request;
  request.prompt = argv[3];
  request.max_new_tokens = 16;
  request.sampling.temperature = 0.0f;
  auto stream = (*engine)->submit(request);
  if (!stream.ok()) return 1;
  while (auto event = (*stream)->next()) std::fputs(event->text.c_str(), stdout);
  return 0;
}
