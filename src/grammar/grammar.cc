#include "grammar/grammar.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "grammar/configuration.h"
#include "grammar/walker.h"

namespace forerun::grammar {
namespace {

// Number of bytes of a long text after which the levels between are dropped.
constexpr size_t kChunkBytes = 256;

// Returns the walker's last level as a configuration.
std::shared_ptr<const Configuration> keep_level(Walker& walker, const Program& program) {
  auto configuration = std::make_shared<Configuration>();
  std::vector<Place> places(walker.places().begin(), walker.places().end());
  configuration->hash = make_canonical(places);
  configuration->hash.mix(walker.complete() ? 1 : 0);
  configuration->hash.mix(program.identity);
  configuration->complete = walker.complete();
  walker.keep(places);
  configuration->places = std::move(places);
  return configuration;
}

}  // namespace

Walker& thread_walker() {
  thread_local Walker walker;
  return walker;
}

GrammarState Grammar::start() const {
  Walker& walker = thread_walker();
  walker.begin_at_root(*program_);
  return GrammarState(program_, keep_level(walker, *program_));
}

bool GrammarState::accept(std::string_view bytes) {
  uint64_t steps = 0;
  return advance(bytes, UINT64_MAX, steps) == Advance::kAccepted;
}

Advance GrammarState::advance(std::string_view bytes, uint64_t max_steps, uint64_t& steps) {
  if (bytes.empty()) return Advance::kAccepted;
  Walker& walker = thread_walker();
  const uint64_t first_step = walker.steps();
  std::shared_ptr<const Configuration> reached = configuration_;
  for (size_t at = 0; at < bytes.size(); at += kChunkBytes) {
    walker.begin(*program_, reached->places, reached->complete);
    walker.limit(max_steps - std::min(max_steps, walker.steps() - first_step));
    for (const char c : bytes.substr(at, kChunkBytes)) {
      if (walker.push(static_cast<uint8_t>(c))) continue;
      steps += walker.steps() - first_step;
      return walker.halted() ? Advance::kHalted : Advance::kRefused;
    }
    reached = keep_level(walker, *program_);
  }
  steps += walker.steps() - first_step;
  configuration_ = std::move(reached);
  return Advance::kAccepted;
}

bool GrammarState::is_complete() const { return configuration_->complete; }
bool GrammarState::can_continue() const { return !configuration_->places.empty(); }
Hash128 GrammarState::hash() const { return configuration_->hash; }

}  // namespace forerun::grammar
