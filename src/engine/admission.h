// How many requests the KV memory has room for: which blocks the texts of the requests that run
// will take, those that several of them share counted once.
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

class Admission {
 public:
  // What a request that waits would take. Made once for its text; asking again costs nothing as
  // long as those that run hold the same pages.
  class Claim {
   public:
    Claim() = default;
    // `view_blocks`: what a model takes for a view beside the text.
    Claim(std::span<const TokenId> text, bool shares, uint64_t salt, int64_t view_blocks = 0);

   private:
    friend class Admission;
    std::vector<uint64_t> pages_;  // names of its full pages, where it shares them
    int64_t own_blocks_ = 0;       // the others
    uint64_t version_ = 0;         // of the pages held, for which pages_to_take_ holds
    int64_t pages_to_take_ = 0;
  };

  // What one request that runs has been promised.
  struct Promise {
    std::vector<uint64_t> pages;
    int64_t own_blocks = 0;
    std::array<bool, kNumRoles> has_read{};
  };

  // `executor` must outlive the object. `draft_keeps_all`: else the draft model keeps a window of
  // each text and has room for as many as may run.
  explicit Admission(const Executor* executor, bool draft_keeps_all = true)
      : executor_(executor), draft_keeps_all_(draft_keeps_all) {}

  // Whether there is room for a request beside `running` others: for its blocks, those that it
  // shares with one that runs aside, and one more for it and for each that runs. Without that room
  // to grow, what is admitted is set aside again before it has done much. Room is always where
  // nothing runs.
  bool has_room(Claim& claim, int64_t running) const;

  // Where there is no memory for all of it (std::bad_alloc), `promise` is what leave() must get.
  void admit(const Claim& claim, Promise& promise);
  // The role has read all of the text: what it takes is in use. Until then all of it counts as
  // promised, though some of it is in use already: beside a prompt that takes more than half of the
  // room others wait until it has been read, rather than too many coming in at once.
  void note_read(Promise& promise, Role role);
  // The request does not run any more. Pages that others wait to read stay promised, to them.
  void leave(Promise& promise);

 private:
  // A page of text that requests which run begin with. It is promised to all of them at once, until
  // one of them has read it, and again when that one has left.
  struct Page {
    int32_t holders = 0;
    std::array<int32_t, kNumRoles> readers{};  // holders that have read it
  };

  const Executor* executor_;
  const bool draft_keeps_all_;
  std::array<int64_t, kNumRoles> promised_{};  // blocks
  std::unordered_map<uint64_t, Page> pages_;   // by name
  uint64_t version_ = 1;                       // of which pages there are
};

}  // namespace forerun
