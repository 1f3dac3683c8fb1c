// Implements allocate_weights() of linear_weight.h.
#include <sys/mman.h>

#include <cstdlib>
#include <mutex>
#include <new>

#include "kernels/linear/linear_weight.h"

namespace forerun {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kChunk = 2 * kHugePage;

constexpr size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Maps new zero pages, aligned to a huge page.
std::shared_ptr<std::byte> map_pages(size_t bytes) {
  const size_t mapped = bytes + kHugePage;
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  const size_t address = reinterpret_cast<size_t>(base);
  std::byte* aligned = static_cast<std::byte*>(base) + (round_up(address, kHugePage) - address);
#if defined(MADV_HUGEPAGE)
  madvise(aligned, bytes, MADV_HUGEPAGE);
#endif
  return std::shared_ptr<std::byte>(aligned,
                                    [base, mapped](std::byte* /*data*/) { munmap(base, mapped); });
}

struct Arena {
  std::mutex mutex;
  std::weak_ptr<std::byte> chunk;  // the current chunk; its users keep it alive
  size_t used = 0;
};

}  // namespace

std::shared_ptr<void> allocate_weights(size_t bytes) {
  static Arena arena;
  bytes = round_up(bytes == 0 ? 1 : bytes, size_t{kVectorBytes});
  if (bytes > kChunk / 2) return map_pages(round_up(bytes, size_t{4096}));
  const std::lock_guard<std::mutex> lock(arena.mutex);
  std::shared_ptr<std::byte> chunk = arena.chunk.lock();
  if (chunk == nullptr || arena.used + bytes > kChunk) {
    chunk = map_pages(kChunk);
    arena.chunk = chunk;
    arena.used = 0;
  }
  std::byte* slice = chunk.get() + arena.used;
  arena.used += bytes;
  return std::shared_ptr<void>(chunk, slice);
}

}  // namespace forerun
