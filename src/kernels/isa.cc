#include "kernels/isa.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kernels/restrict_isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace forerun {
namespace {

constexpr Isa kAllIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx};

#if defined(__x86_64__)
struct X86Features {
  bool avx2 = false;
  bool avx512 = false;
  bool avx512_bf16 = false;
  bool tiles = false;  // AMX_TILE, AMX_BF16, AMX_INT8, and permission to use them
  bool intel = false;
};

// Returns the registers that the operating system saves when it switches threads (XCR0): one bit
// per kind.
uint64_t saved_registers() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

// Asks Linux for permission to use tile registers (whose state is 8 KB per thread). Threads inherit
// the permission.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

X86Features detect() {
  X86Features found;
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  found.intel = __get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0 && ebx == signature_INTEL_ebx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return found;
  const bool fma = ((ecx >> 12) & 1) != 0;
  const bool osxsave = ((ecx >> 27) & 1) != 0;
  const bool f16c = ((ecx >> 29) & 1) != 0;
  if (!osxsave) return found;
  const uint64_t saved = saved_registers();
  if ((saved & 0x6) != 0x6) return found;  // xmm, ymm
  uint32_t max_subleaf = 0;
  if (__get_cpuid_count(7, 0, &max_subleaf, &ebx, &ecx, &edx) == 0) return found;
  found.avx2 = fma && f16c && ((ebx >> 5) & 1) != 0;
  const bool f = ((ebx >> 16) & 1) != 0;
  const bool dq = ((ebx >> 17) & 1) != 0;
  const bool bw = ((ebx >> 30) & 1) != 0;
  const bool vl = ((ebx >> 31) & 1) != 0;
  const bool vnni = ((ecx >> 11) & 1) != 0;
  constexpr uint32_t kTileBits = (1u << 22) | (1u << 24) | (1u << 25);  // bf16, tile, int8
  const bool tiles = (edx & kTileBits) == kTileBits && (saved & 0x60000) == 0x60000;
  const bool zmm_saved = (saved & 0xe6) == 0xe6;
  found.avx512 = found.avx2 && zmm_saved && f && dq && bw && vl && vnni;
  if (found.avx512 && max_subleaf >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) {
    found.avx512_bf16 = ((eax >> 5) & 1) != 0;
  }
  found.tiles = found.avx512_bf16 && tiles && may_use_tiles();
  return found;
}

const X86Features& x86_features() {
  static const X86Features features = detect();
  return features;
}
#endif

struct Choice {
  Isa isa = Isa::kScalar;
  Status status;
};

Choice choose() {
  Choice choice;
  std::string usable;
  for (Isa isa : kAllIsas) {
    if (!isa_is_supported(isa)) continue;
    if (!isa_is_emulated(isa)) choice.isa = isa;
    usable += (usable.empty() ? "" : ", ") + std::string(isa_name(isa));
  }
  if (usable.empty()) {
    choice.status = Status(StatusCode::kUnsupported,
                           "instruction set: found a processor that lacks what this build is for; "
                           "accepted: a processor like the one that it was built on");
    return choice;
  }
  const char* wanted = std::getenv("FORERUN_ISA");
  if (wanted == nullptr || *wanted == '\0') return choice;
  for (Isa isa : kAllIsas) {
    if (std::string_view(wanted) == isa_name(isa) && isa_is_supported(isa)) {
      choice.isa = isa;
      return choice;
    }
  }
  choice.status =
      Status(StatusCode::kInvalidArgument, "FORERUN_ISA: found '" + std::string(wanted) +
                                               "'; accepted on this processor: " + usable);
  return choice;
}

const Choice& the_choice() {
  static const Choice choice = choose();
  return choice;
}

constexpr uint8_t kUnrestricted = 0xff;
std::atomic<uint8_t> restricted{kUnrestricted};

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
    case Isa::kAmx:
      return "amx";
  }
  return "?";
}

bool isa_is_supported(Isa isa) {
  if (!isa_is_built(isa)) return false;
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return x86_features().avx2;
    case Isa::kAvx512:
      return x86_features().avx512;
    case Isa::kAvx512Bf16:
      return x86_features().avx512_bf16;
    case Isa::kAmx:
      return x86_features().tiles || (kAmxTwinIsBuilt && x86_features().avx512_bf16);
  }
  return false;
#else
  return isa == Isa::kScalar;
#endif
}

bool isa_is_emulated(Isa isa) {
#if defined(__x86_64__)
  return isa == Isa::kAmx && isa_is_supported(isa) && !x86_features().tiles;
#else
  static_cast<void>(isa);
  return false;
#endif
}

bool bf16_dots_are_slow() {
#if defined(__x86_64__)
  return x86_features().intel;
#else
  return false;
#endif
}

Isa current_isa() {
  const uint8_t isa = restricted.load(std::memory_order_relaxed);
  return isa == kUnrestricted ? the_choice().isa : static_cast<Isa>(isa);
}

Status check_isa() { return the_choice().status; }

Status restrict_isa(Isa isa) {
  if (isa > current_isa()) {
    return Status(StatusCode::kInvalidArgument,
                  std::string("instruction set: found ") + isa_name(isa) +
                      "; accepted in this process: those up to " + isa_name(current_isa()));
  }
  if (!isa_is_built(isa)) {
    return Status(StatusCode::kInvalidArgument,
                  std::string("instruction set: found ") + isa_name(isa) +
                      "; accepted in this build: " + isa_name(current_isa()) +
                      " (the preset cpu-release builds all)");
  }
  restricted = static_cast<uint8_t>(isa);
  return {};
}

}  // namespace forerun
