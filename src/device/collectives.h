// Collective operations of a tensor-parallel group; each backend implements them once. An object
// belongs to one participant: on a CPU to one thread of a device's team, on a GPU to the device,
// whose operations run in the order of its stream. Every device calls the same functions in the
// same order.
//
// Every device adds partial sums with the same operations in rank order, so replicas agree bit for
// bit.
//
// If a device fails or misses the timeout, the others stop waiting. The group's run() then reports
// why, and nothing that the run has written may be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/tensor_view.h"

namespace forerun {

class Collectives {
 public:
  Collectives(int32_t rank, int32_t degree) : rank_(rank), degree_(degree) {}
  virtual ~Collectives() = default;

  int32_t rank() const { return rank_; }  // in [0, degree)
  int32_t degree() const { return degree_; }

  // x [rows][width] += (partial of rank 0 + rank 1 + ...) + bias, all in f32, then rounded to bf16
  // if `round_to_bf16` is set. `bias` is [width] or empty. x must have the same content on every
  // device before the call, and then has the same content after it. All members of all teams call
  // it; each writes its own columns, and the caller syncs its team before it reads x.
  //
  // The other devices read `partial` [rows][width], so it may be overwritten only after the next
  // collective call has returned (alternating between two buffers is enough).
  virtual void add_partials(MatrixView<const float> partial, std::span<const float> bias,
                            bool round_to_bf16, MatrixView<float> x) = 0;

  // All-gather: returns the bytes that each device passed, indexed by rank; their sizes may differ.
  // The result is valid until this participant's next gather. Meant for kilobytes, not for logits.
  // On a CPU, members with the same rank in their teams gather among themselves, independently of
  // members of other ranks; every device must have a member of that rank.
  virtual std::span<const std::span<const std::byte>> gather(
      std::span<const std::byte> own_part) = 0;

 private:
  int32_t rank_;
  int32_t degree_;
};

// Gathers the records of all devices into `all`, in rank order.
template <class T>
void gather_records(Collectives& collectives, std::span<const T> own_part, std::vector<T>& all) {
  static_assert(std::is_trivially_copyable_v<T>);
  all.clear();
  for (const std::span<const std::byte> part : collectives.gather(std::as_bytes(own_part))) {
    const auto* records = reinterpret_cast<const T*>(part.data());
    all.insert(all.end(), records, records + part.size() / sizeof(T));
  }
}

}  // namespace forerun
