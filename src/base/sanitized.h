// Constants that say whether this build has the address or the thread sanitizer. Tests that would
// take minutes under a sanitizer check fewer cases, and kernels that would compile for minutes have
// fewer variants. The thread sanitizer looks for races, so tests need not cover all formats and
// shapes under it.
#pragma once

namespace forerun {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kAddressSanitized = true;
#else
inline constexpr bool kAddressSanitized = false;
#endif
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
#else  // g++
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitized = true;
#else
inline constexpr bool kAddressSanitized = false;
#endif
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
#endif
inline constexpr bool kSanitized = kAddressSanitized || kThreadSanitized;

}  // namespace forerun
