// Counts the KV blocks that are reserved for the texts of running requests, and decides whether
// there is room for one more request. Blocks that several requests share count once.
// AdmissionPolicy decides which request is admitted.
//
// Thread rules: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "exec/executor.h"
#include "step/types.h"

namespace forerun {

class KvReservations {
 public:
  // The blocks that a waiting request would take. It is made once for the request's text; asking
  // again costs nothing as long as the running requests hold the same pages.
  class Claim {
   public:
    Claim() = default;
    // `view_blocks`: number of blocks that a model takes for a view, beside the text.
    Claim(std::span<const TokenId> text, bool shares, uint64_t salt, int64_t view_blocks = 0);

   private:
    friend class KvReservations;
    std::vector<uint64_t> pages_;  // names of the text's full pages, if the request shares them
    int64_t own_blocks_ = 0;       // blocks that are not shared
    // Value of KvReservations::version_ for which pages_to_take_ was computed.
    uint64_t version_ = 0;
    int64_t pages_to_take_ = 0;
  };

  // The blocks that are reserved for a running request.
  struct Reservation {
    std::vector<uint64_t> pages;
    int64_t own_blocks = 0;
    std::array<bool, kNumRoles> has_read{};
  };

  // `executor` must outlive the object. `draft_keeps_all` false: the draft model keeps only a
  // window of each text and has room for all requests that may run.
  explicit KvReservations(const Executor* executor, bool draft_keeps_all = true)
      : executor_(executor), draft_keeps_all_(draft_keeps_all) {}

  // Returns whether there is room for a request beside `running` others: for the blocks that it
  // does not share with a running request, and one more block for it and for each running request.
  // Without that room to grow, a request would be preempted soon after its admission. If no request
  // runs, there is always room.
  bool has_room(Claim& claim, int64_t running) const;

  // If memory runs out halfway (std::bad_alloc), `reservation` holds what the caller must pass to
  // release().
  void reserve(const Claim& claim, Reservation& reservation);
  // Records that the role has read the whole text, so its blocks are in use. Until then all of them
  // count as reserved, though some are in use already. So other requests wait while a prompt that
  // takes more than half of the room is being read; otherwise too many would be admitted at once.
  void note_read(Reservation& reservation, Role role);
  // Releases the blocks of a request that no longer runs. Pages that other requests still have to
  // read stay reserved for those.
  void release(Reservation& reservation);

 private:
  // A page of text that running requests begin with. It is reserved once for all of them until one
  // of them has read it, and again once that one has left.
  struct Page {
    int32_t holders = 0;
    std::array<int32_t, kNumRoles> readers{};  // holders that have read it
  };

  const Executor* executor_;
  const bool draft_keeps_all_;
  std::array<int64_t, kNumRoles> reserved_{};  // numbers of blocks
  std::unordered_map<uint64_t, Page> pages_;   // keyed by name
  uint64_t version_ = 1;                       // changes with the set of pages
};

}  // namespace forerun
