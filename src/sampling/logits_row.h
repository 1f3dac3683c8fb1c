// A row of logits for the sampler. It is either whole or sharded, i.e. the tokens of one device of
// a group. Its logits are in host memory, or on a device and not copied; then a summary describes
// them (kernels/logits_summary).
//
// All devices of a group call the same function on their parts of a row. If a decision needs all
// parts, the function exchanges a few candidates, sums of weights or a histogram with the other
// devices, never logits. It returns the same on all devices. Sums are fixed-point and candidates
// are ordered by (logit, id), so the result does not depend on how the row is divided.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "device/collectives.h"
#include "forerun/status.h"
#include "kernels/logits_summary/logits_summary.h"
#include "step/types.h"

namespace forerun {

struct LogitsRow {
  // Makes a whole row.
  LogitsRow(std::span<const float> whole)
      : values(whole), vocab(static_cast<int32_t>(whole.size())) {}
  LogitsRow(const std::vector<float>& whole) : LogitsRow(std::span<const float>(whole)) {}
  // Makes a part of `vocab` tokens, from `first` on (a multiple of 16). The parts of a group's
  // devices cover the vocabulary once, in rank order; some may be empty. `group` is the calling
  // device's end.
  LogitsRow(std::span<const float> part, TokenId first, int32_t all, Collectives* group)
      : values(part), first_token(first), vocab(all), peers(group) {}

  std::span<const float> values;  // [tokens]
  TokenId first_token = 0;
  int32_t vocab = 0;
  Collectives* peers = nullptr;  // null: the row is whole
  // Not null if the logits are on a device: they are its row `device_row`. fetch() copies them to
  // `values`; until then only their summary can be read.
  DeviceLogits* on_device = nullptr;
  int32_t device_row = 0;

  bool is_sharded() const { return peers != nullptr; }
  // Returns the summary of the logits; null if `values` may be read.
  const LogitsSummary* summary() const {
    return on_device == nullptr ? nullptr : on_device->summary(device_row);
  }
  // Returns the query that the summary answers. Requires a summary.
  const RowQuery& query() const { return on_device->query(device_row); }
  // Copies the logits to `values`. Before that, `values` is invalid if there is a summary.
  Status fetch() const { return on_device == nullptr ? Status() : on_device->fetch(device_row); }
  bool holds(TokenId token) const {
    return token >= first_token && static_cast<size_t>(token - first_token) < values.size();
  }
  // Returns the logit of `token`, which the row must hold.
  float at(TokenId token) const { return values[static_cast<size_t>(token - first_token)]; }
};

// Returns the lists of all parts, joined in rank order: `own` itself if the row is whole, else
// `all`, into which they are gathered.
template <class T>
std::vector<T>& of_all_parts(const LogitsRow& row, std::vector<T>& own, std::vector<T>& all) {
  if (!row.is_sharded()) return own;
  gather_records<T>(*row.peers, own, all);
  return all;
}

// Calls `take` with the record of every part, in rank order. `own` is this part's record.
template <class T, class Take>
void for_each_part(const LogitsRow& row, const T& own, const Take& take) {
  if (!row.is_sharded()) return take(own);
  for (const std::span<const std::byte> part :
       row.peers->gather(std::as_bytes(std::span<const T>(&own, 1)))) {
    T record;
    std::memcpy(&record, part.data(), sizeof(T));
    take(record);
  }
}

// The position of a part's fixed-point weights among the weights of all parts, which are
// concatenated in rank order. A sample is a position in [0, total), the same on every device.
struct PartOfWeights {
  uint64_t before = 0;
  uint64_t own = 0;
  uint64_t total = 0;

  PartOfWeights(const LogitsRow& row, uint64_t own_sum) : own(own_sum) {
    int32_t rank = 0;
    const int32_t my_rank = row.is_sharded() ? row.peers->rank() : 0;
    for_each_part(row, own, [&](uint64_t part) {
      if (rank++ < my_rank) before += part;
      total += part;
    });
  }
  // Returns the index of the weight that contains `place` (below `total`), or -1 if it is in
  // another part. The values of `weight(index)` must add up to `own`.
  template <class Weight>
  int64_t find(uint64_t place, const Weight& weight) const {
    if (place < before || place - before >= own) return -1;
    uint64_t rest = place - before;
    for (int64_t index = 0;; ++index) {
      const uint64_t here = weight(static_cast<size_t>(index));
      if (rest < here) return index;
      rest -= here;
    }
  }
};

inline uint64_t sum_of_parts(const LogitsRow& row, uint64_t own) {
  uint64_t sum = 0;
  for_each_part(row, own, [&sum](uint64_t part) { sum += part; });
  return sum;
}

}  // namespace forerun
