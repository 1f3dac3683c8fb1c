#include "device/cpu/cpu_collectives.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace forerun {
namespace {

// Rounds like base/dtype.h but without a branch, so that the compiler vectorizes it.
inline float rounded_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  const uint32_t quiet = (bits | 0x400000u) & 0xffff0000u;
  return std::bit_cast<float>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : nearest);
}

// Adds sum + bias to one row's share of x, in place; `sum` may be the first partial itself.
void add_row(const float* sum, const float* bias, int64_t count, bool round_to_bf16, float* x) {
  if (bias != nullptr) {
    for (int64_t at = 0; at < count; ++at) x[at] += sum[at] + bias[at];
  } else {
    for (int64_t at = 0; at < count; ++at) x[at] += sum[at];
  }
  if (!round_to_bf16) return;
  for (int64_t at = 0; at < count; ++at) x[at] = rounded_to_bf16(x[at]);
}

}  // namespace

void CpuGroupShared::give_up(Status reason) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = std::move(reason);
  }
  everybody->give_up();
  for (const auto& barrier : teams) barrier->give_up();
  for (const auto& barrier : columns) barrier->give_up();
}

Status CpuGroupShared::take_failure() {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) return failure_;
  everybody->reset();
  for (const auto& barrier : teams) barrier->reset();
  for (const auto& barrier : columns) barrier->reset();
  for (const auto& device : participants) {
    for (CpuCollectives* member : device) member->restart();
  }
  return std::exchange(failure_, Status());
}

CpuCollectives::CpuCollectives(int32_t rank, int32_t degree, Team team, CpuGroupShared* shared)
    : Collectives(rank, degree), team_(team), shared_(shared) {
  parts_.resize(static_cast<size_t>(degree));
}

void CpuCollectives::restart() {
  for (auto& meetings : meetings_) meetings = 0;
  sums_ = 0;
  gathers_ = 0;
}

void CpuCollectives::meet(Meeting meeting, Barrier& barrier) {
  if (shared_->before_collective && team_.rank() == 0) {
    if (Status status = shared_->before_collective(rank()); !status.ok()) {
      shared_->give_up(status.with_context("device " + std::to_string(rank())));
      throw RunGivenUp{};
    }
  }
  const auto kind = static_cast<size_t>(meeting);
  meetings_[kind].fetch_add(1, std::memory_order_relaxed);
  if (barrier.wait(shared_->timeout)) return;
  // The late device is the one whose members have come to the fewest of these meetings. An earlier
  // reason stays if the run had been given up already.
  int32_t late = 0;
  uint32_t min_meetings = UINT32_MAX;
  for (const auto& device : shared_->participants) {
    for (const CpuCollectives* member : device) {
      if (meeting == Meeting::kColumn && member->team_.rank() != team_.rank()) continue;
      const uint32_t meetings = member->meetings_[kind].load(std::memory_order_relaxed);
      if (meetings >= min_meetings) continue;
      min_meetings = meetings;
      late = member->rank();
    }
  }
  shared_->give_up(Status(StatusCode::kDeadlineExceeded,
                          "device " + std::to_string(late) + " of " + std::to_string(degree()) +
                              " did not come to a collective within " +
                              std::to_string(shared_->timeout.count()) + " ms"));
  throw RunGivenUp{};
}

void CpuCollectives::add_partials(MatrixView<const float> partial, std::span<const float> bias,
                                  bool round_to_bf16, MatrixView<float> x) {
  std::vector<MatrixView<const float>>& partials = shared_->partials[sums_++ % 2];
  if (team_.rank() == 0) partials[static_cast<size_t>(rank())] = partial;
  meet(Meeting::kEverybody, *shared_->everybody);
  const WorkRange columns = team_.share(x.dim(1), 16);
  // Adds rows piece by piece, so that the sum of a piece stays in the L1 cache.
  constexpr int64_t kPiece = 1024;
  float sum[kPiece];
  for (int64_t row = 0; row < x.dim(0); ++row) {
    for (int64_t begin = columns.begin; begin < columns.end; begin += kPiece) {
      const int64_t count = std::min(kPiece, columns.end - begin);
      const float* first = partials[0].row(row) + begin;
      std::copy(first, first + count, sum);
      for (size_t from = 1; from < partials.size(); ++from) {
        const float* other = partials[from].row(row) + begin;
        for (int64_t at = 0; at < count; ++at) sum[at] += other[at];
      }
      add_row(sum, bias.empty() ? nullptr : bias.data() + begin, count, round_to_bf16,
              x.row(row) + begin);
    }
  }
}

std::span<const std::span<const std::byte>> CpuCollectives::gather(
    std::span<const std::byte> own_part) {
  const uint32_t turn = gathers_++ % 2;
  told_[turn].assign(own_part.begin(), own_part.end());
  const auto column = static_cast<size_t>(team_.rank());
  if (degree() > 1) meet(Meeting::kColumn, *shared_->columns[column]);
  for (size_t device = 0; device < parts_.size(); ++device) {
    parts_[device] = shared_->participants[device][column]->told_[turn];
  }
  return parts_;
}

}  // namespace forerun
