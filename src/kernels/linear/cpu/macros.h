// Macros for linear/cpu/tiles.inc and vec_*.inc: internal linkage, and unrolling of loops, without
// which arrays of accumulators would not live in registers.
#pragma once

#define FORERUN_INLINE [[gnu::always_inline]] static inline
#define FORERUN_INLINE_MEMBER [[gnu::always_inline]] inline
#define FORERUN_STATIC [[maybe_unused]] static

#if defined(__clang__)
#define FORERUN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FORERUN_UNROLL _Pragma("GCC unroll 16")
#endif

// Forces a vector into a register, so that the compiler does not repeat its load as memory
// operands.
#if defined(__x86_64__)
#define FORERUN_IN_REGISTER(vector) asm("" : "+v"(vector))
#else
#define FORERUN_IN_REGISTER(vector) static_cast<void>(vector)
#endif
