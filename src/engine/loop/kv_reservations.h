// Counts the KV blocks that are reserved for the texts of running requests, and says whether there
// is room for one more. Blocks that several requests share are counted once. Which request is
// admitted is AdmissionPolicy's decision.
//
// One thread.
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
  // The blocks that a waiting request would take. Made once for its text; asking again costs
  // nothing as long as the running requests hold the same pages.
  class Claim {
   public:
    Claim() = default;
    // `view_blocks`: blocks that a model takes for a view beside the text.
    Claim(std::span<const TokenId> text, bool shares, uint64_t salt, int64_t view_blocks = 0);

   private:
    friend class KvReservations;
    std::vector<uint64_t> pages_;  // names of the text's full pages, where the request shares them
    int64_t own_blocks_ = 0;       // blocks that are not shared
    uint64_t version_ = 0;         // KvReservations::version_ for which pages_to_take_ was computed
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

  // Whether there is room for a request beside `running` others: for its blocks, without those that
  // it shares with a running request, and one more block for it and for each running request.
  // Without that room to grow, a request would be preempted soon after it was admitted. Where
  // nothing runs there is always room.
  bool has_room(Claim& claim, int64_t running) const;

  // Where memory runs out halfway (std::bad_alloc), `reservation` holds what must be passed to
  // release().
  void reserve(const Claim& claim, Reservation& reservation);
  // The role has read the whole text, so its blocks are in use. Until then all of them count as
  // reserved, though some are in use already: so while a prompt that takes more than half of the
  // room is being read, other requests wait, rather than too many being admitted at once.
  void note_read(Reservation& reservation, Role role);
  // The request no longer runs. Pages that other requests still have to read stay reserved for
  // those.
  void release(Reservation& reservation);

 private:
  // A page of text that running requests begin with. It is reserved once for all of them, until one
  // of them has read it, and again once that one has left.
  struct Page {
    int32_t holders = 0;
    std::array<int32_t, kNumRoles> readers{};  // holders that have read it
  };

  const Executor* executor_;
  const bool draft_keeps_all_;
  std::array<int64_t, kNumRoles> reserved_{};  // blocks
  std::unordered_map<uint64_t, Page> pages_;   // by name
  uint64_t version_ = 1;                       // changes with the set of pages
};

}  // namespace forerun
