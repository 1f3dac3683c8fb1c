#include "interrupt.h"

#include <csignal>

namespace forerun::app {
namespace {

using Handler = void (*)(int);

volatile std::sig_atomic_t last_signal = 0;  // 0: no signal has arrived
Handler sigint_before = SIG_DFL;
Handler sigterm_before = SIG_DFL;

void on_signal(int number) {
  if (last_signal != 0) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
  last_signal = number;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  last_signal = 0;
  sigint_before = std::signal(SIGINT, on_signal);
  sigterm_before = std::signal(SIGTERM, on_signal);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, sigint_before);
  std::signal(SIGTERM, sigterm_before);
}

bool InterruptGuard::interrupted() { return last_signal != 0; }

Status InterruptGuard::status() {
  return interrupted() ? Status(StatusCode::kCancelled, "interrupted") : Status();
}

int InterruptGuard::exit_code() { return 128 + last_signal; }

}  // namespace forerun::app
