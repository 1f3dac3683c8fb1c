// Frame: where a called rule returns to, an immutable node of a graph of stacks.
//
// Rules called at one place share one frame even if several rules called them there, so a frame
// has a list of callers, each a node to go on from and the caller's own frame. Frames form a graph
// without circles. Those of a GrammarState are counted references and live as long as any state
// that needs them; those made while a walk tries bytes lie in an arena and go with the step that
// made them.
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

// A place in a grammar: a node, the rounds of its rule's loop, and what the rule returns to. As an
// entry of a frame: a place to return to.
struct Place {
  uint32_t node = kNoNode;
  uint32_t rounds = 0;
  const Frame* frame = nullptr;
};

struct Frame {
  Hash128 hash;  // hash of the callers; equal frames are never told apart
  const Place* callers = nullptr;
  uint32_t caller_count = 0;
  bool counted = false;  // references are counted; else it lies in an arena
  mutable std::atomic<uint32_t> references{0};
  mutable const Frame* kept_copy = nullptr;  // copy of an arena's frame, while a state is being
                                             // kept

  std::span<const Place> places() const { return {callers, caller_count}; }
};

// Stands for a caller that is not known: what happens after it is left to the reader.
const Frame* unknown_frame();

// Orders by node, rounds and the frame's hash; equal places compare equal whatever the addresses.
bool place_before(const Place& a, const Place& b);
inline bool same_place(const Place& a, const Place& b) {
  return a.node == b.node && a.rounds == b.rounds &&
         (a.frame == b.frame || (a.frame && b.frame && a.frame->hash == b.frame->hash));
}

// Sorts `places`, drops duplicates, and returns their hash.
Hash128 make_canonical(std::vector<Place>& places);

// Makes a frame with a reference count, which is 1: the caller's. The frame holds a reference to
// the frame of each of `callers`, which must have such a count as well.
const Frame* new_counted_frame(Hash128 hash, std::span<const Place> callers);
// Adds or drops a reference. Both do nothing for null and for frames that are not counted.
void retain(const Frame* frame);
void release(const Frame* frame);

// Frames of one walk. Not thread-safe.
class FrameArena {
 public:
  struct Mark {
    size_t frames = 0, chunk = 0, used = 0;
  };
  Mark mark() const { return {frame_count_, chunk_, used_}; }
  // Forgets the frames made after `mark`.
  void release_to(const Mark& mark);

  const Frame* make(Hash128 hash, std::span<const Place> callers);

  // A counted frame, with a reference for the caller, that equals `frame` of this arena; what is
  // counted already gets one more reference. Copies made for one call of keep_all are shared.
  // Replaces the frame of every place.
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
  std::vector<Frame*> frames_;  // in order of making: a frame's callers are made before it
  size_t frame_count_ = 0;
};

}  // namespace forerun::grammar
