#include "forerun/sigbus_handler.h"

#include <cerrno>
#include <csignal>
#include <mutex>

#include "checkpoint/mapped_ranges.h"

namespace forerun {
namespace {

struct sigaction action_before {};

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((action_before.sa_flags & SA_SIGINFO) != 0) {
    return action_before.sa_sigaction(signal, info, context);
  }
  const bool is_fault = info->si_code > 0;  // if false, a process has sent the signal
  if (action_before.sa_handler == SIG_IGN && !is_fault) return;
  if (action_before.sa_handler != SIG_IGN && action_before.sa_handler != SIG_DFL) {
    return action_before.sa_handler(signal);
  }
  // A fault repeats as soon as this handler returns, and then ends the process at the faulting
  // instruction. A sent signal does not repeat, so the handler raises it again; it is delivered
  // when the handler returns.
  std::signal(signal, SIG_DFL);
  if (!is_fault) raise(signal);
}

void on_sigbus(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_fault = info->si_code > 0;
  if (!is_fault || !MappedRange::replace_unreadable(info->si_addr)) pass_on(signal, info, context);
  errno = error;
}

}  // namespace

void install_sigbus_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, nullptr, &action_before);
    sigaction(SIGBUS, &action, nullptr);
  });
}

}  // namespace forerun
