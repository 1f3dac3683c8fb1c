// Macros for what functions and templates cannot express: internal linkage with forced inlining,
// and full unrolling of loops, which keeps arrays of accumulators in registers.
#pragma once

#define FORERUN_INLINE [[gnu::always_inline]] static inline
#define FORERUN_INLINE_MEMBER [[gnu::always_inline]] inline
#define FORERUN_INLINE_LAMBDA __attribute__((always_inline))
#define FORERUN_STATIC [[maybe_unused]] static

#if defined(__clang__)
#define FORERUN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FORERUN_UNROLL _Pragma("GCC unroll 16")
#endif
