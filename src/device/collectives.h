// What the devices of a tensor-parallel group do together; one implementation a backend. An object
// is one participant's end: on a CPU that of one thread of a device's team, on a GPU that of the
// device, in the order of its stream. Every device calls the same functions in the same order.
//
// Sums run in rank order and are the same operations on every device, so that replicas agree bit
// for bit.
//
// A device that fails or does not come in time ends the others' waiting: the group's run() then
// reports why, and nothing that the run has written may be used.
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

  int32_t rank() const { return rank_; }  // of the device, in [0, degree)
  int32_t degree() const { return degree_; }

  // x [rows][width] += (partial of rank 0 + rank 1 + ...) + bias, all in f32, and rounded to bf16
  // afterwards where `round_to_bf16` is set. `bias` [width] or empty. x has the same content on
  // every device before, and so after. Collective over whole teams: members write columns of their
  // own, and the caller syncs its team before x is read.
  //
  // `partial` [rows][width] is read by the other devices: it may be written again only after the
  // next collective call has returned (two buffers in turn do).
  virtual void add_partials(MatrixView<const float> partial, std::span<const float> bias,
                            bool round_to_bf16, MatrixView<float> x) = 0;

  // What every device passed, by rank; parts may differ in size. Valid until the next gather of
  // this participant. For kilobytes, not for logits. On a CPU the members of equal rank of all
  // teams gather among themselves, and any of them may do so alone; every device has a member of
  // that rank.
  virtual std::span<const std::span<const std::byte>> gather(std::span<const std::byte> mine) = 0;

 private:
  int32_t rank_;
  int32_t degree_;
};

// The records of all devices in rank order, in `all`.
template <class T>
void gather_records(Collectives& collectives, std::span<const T> mine, std::vector<T>& all) {
  static_assert(std::is_trivially_copyable_v<T>);
  all.clear();
  for (const std::span<const std::byte> part : collectives.gather(std::as_bytes(mine))) {
    const auto* records = reinterpret_cast<const T*>(part.data());
    all.insert(all.end(), records, records + part.size() / sizeof(T));
  }
}

}  // namespace forerun
