// The pause instruction, for threads that poll memory in a loop.
#pragma once

namespace forerun {

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace forerun
