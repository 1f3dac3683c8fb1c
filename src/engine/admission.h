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
  // What one request has been promised.
  struct Promise {
    std::vector<uint64_t> shared_pages;  // of its text, those that others may share: their names
    // Blocks that its text will take, by role, until that role has read it.
    std::array<int64_t, kNumRoles> blocks{};
  };

  // `executor` must outlive the object.
  explicit Admission(const Executor* executor) : executor_(executor) {}

  // Whether there is room for a request of this text beside `running` others: for its blocks, those
  // that it shares with one that runs aside, and one more for it and for each that runs. Without
  // that room to grow, what is admitted is set aside again before it has done much. Room is always
  // where nothing runs.
  // `view_blocks`: what a model takes for a view beside the text.
  bool has_room(std::span<const TokenId> text, bool shares, int64_t running,
                int64_t view_blocks = 0) const;

  Promise admit(std::span<const TokenId> text, bool shares, int64_t view_blocks = 0);
  // The role has read all of the text: what it takes is in use. Until then all of it counts as
  // promised, though some of it is in use already: beside a prompt that takes more than half of the
  // room others wait until it has been read, rather than too many coming in at once.
  void note_read(Promise& promise, Role role);
  // The request does not run any more.
  void leave(Promise& promise);

 private:
  int64_t blocks_to_take(std::span<const TokenId> text, bool shares) const;

  const Executor* executor_;
  std::array<int64_t, kNumRoles> promised_{};      // of all requests
  std::unordered_map<uint64_t, int32_t> holders_;  // of each page's name
};

}  // namespace forerun
