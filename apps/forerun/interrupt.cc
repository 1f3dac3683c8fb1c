#include "interrupt.h"

#include <csignal>
#include <cstdlib>

namespace forerun::app {
namespace {

volatile std::sig_atomic_t signals_seen = 0;

void on_signal(int number) {
  signals_seen = signals_seen + 1;
  if (signals_seen > 1) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
}

}  // namespace

InterruptGuard::InterruptGuard() {
  signals_seen = 0;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptGuard::interrupted() { return signals_seen > 0; }

void InterruptGuard::reset() { signals_seen = 0; }

}  // namespace forerun::app
