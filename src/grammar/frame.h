// Frame: the return address of a called rule, an immutable node of a graph of stacks.
//
// Rules called at one place share one frame even if several rules called them there, so a frame has
// a list of callers, each with a node to continue from and the caller's own frame. Frames form an
// acyclic graph. Frames of a GrammarState have reference counts and live as long as any state needs
// them; frames made while a walk tries bytes are in an arena and are freed with the step that made
// them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "grammar/program.h"

namespace forerun::grammar {

struct Frame;

// A place in a grammar: a node, the rounds of its rule's loop, and the frame that its rule returns
// to. As an entry of a frame: a place to return to.
struct Place {
  uint32_t node = kNoNode;
  uint32_t rounds = 0;
  const Frame* frame = nullptr;
};

struct Frame {
  Hash128 hash;  // hash of the callers; frames with equal hashes count as equal
  const Place* callers = nullptr;
  uint32_t caller_count = 0;
  bool counted = false;  // has a reference count; otherwise it is in an arena
  mutable std::atomic<uint32_t> references{0};
  // Copy of an arena's frame, while a state is being kept.
  mutable const Frame* kept_copy = nullptr;

  std::span<const Place> places() const { return {callers, caller_count}; }
};

// Returns the frame of unknown callers: readers decide what happens after it.
const Frame* unknown_frame();

// Orders by node, rounds and the frame's hash; equal places compare equal at different addresses.
bool place_before(const Place& a, const Place& b);
inline bool same_place(const Place& a, const Place& b) {
  return a.node == b.node && a.rounds == b.rounds &&
         (a.frame == b.frame || (a.frame && b.frame && a.frame->hash == b.frame->hash));
}

// Sorts `places`, drops duplicates, and returns their hash.
Hash128 make_canonical(std::vector<Place>& places);

// Makes a frame with a reference count of 1, which belongs to the caller. The frame holds a
// reference to the frame of each of `callers`, which must be counted as well.
const Frame* new_counted_frame(Hash128 hash, std::span<const Place> callers);
// Adds or drops a reference. Both do nothing for null and for frames without a count.
void retain(const Frame* frame);
void release(const Frame* frame);

// Frames of one walk. Not thread-safe.
class FrameArena {
 public:
  struct Mark {
    size_t frames = 0, chunk = 0, used = 0;
  };
  Mark mark() const { return {frame_count_, chunk_, used_}; }
  // Frees the frames made after `mark`.
  void release_to(const Mark& mark);

  const Frame* make(Hash128 hash, std::span<const Place> callers);

  // Replaces the frame of every place by an equal counted frame, with a reference for the caller; a
  // frame that is counted already gets one more reference. Copies made in one call of keep_all are
  // shared.
  void keep_all(std::span<Place> places);

 private:
  void* allocate(size_t bytes);

  static constexpr size_t kChunkBytes = 64 << 10;
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
  };
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0, used_ = 0;
  std::vector<Frame*> frames_;  // in order of creation: a frame's callers come before it
  size_t frame_count_ = 0;
};

}  // namespace forerun::grammar
