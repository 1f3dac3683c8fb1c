// Walker: follows a grammar through bytes, one level per byte, and back.
//
// A level is the set of places (frame.h) where the grammar can be after the bytes so far. It is
// closed: rules that have ended have returned, and rules that can begin have their starts in the
// set; places with only calls are left out.
//
// A text that can be read in many ways leads to one node with many frames. Such places are joined
// into one with a frame that returns to the callers of all. So a level has about as many places as
// the grammar has nodes, for texts of any length. Places with frames that are too deep are not
// joined, which only makes the level longer.
//
// A walker keeps its memory between walks, so each thread keeps one. Not thread-safe. The program
// and the frames of the first level must outlive the walk.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "grammar/frame.h"
#include "grammar/program.h"

namespace forerun::grammar {

// Limits on the places of one level, the callers of one frame, and the steps of one byte; a walk
// that exceeds one is halted. Only a grammar that reads one text in very many ways comes near.
constexpr size_t kMaxPlaces = 1024;
constexpr uint64_t kMaxStepsOfByte = 200'000;
// The depth to which frames are searched when they are joined, and the number of a byte's steps
// that joining may take.
constexpr size_t kMaxJoinDepth = 2000;
constexpr uint64_t kMaxJoinSteps = 50'000;

class Walker {
 public:
  // Makes the closure of the start of `program` the first level.
  void begin_at_root(const Program& program);
  // Makes a level of an earlier walk the first level.
  void begin(const Program& program, std::span<const Place> places, bool complete);
  // Makes one place the first level; loops count their rounds without bounds.
  void begin_unbounded(const Program& program, const Place& place);
  // Makes the places after the end of a rule with frame `frame` the first level. halted() if they
  // exceed a limit of one level, as after begin_at_root().
  void begin_after(const Program& program, const Frame* frame);

  // Halts the present walk once it has taken more than `steps` further steps.
  void limit(uint64_t steps) { limit_ = steps < UINT64_MAX - steps_ ? steps_ + steps : UINT64_MAX; }
  // Returns whether the last push() stopped at limit() or at a limit of one level; it is then
  // unknown whether the byte is allowed.
  bool halted() const { return halted_; }

  // Reads one byte. Returns false, without adding a level, if the grammar cannot continue with it,
  // or if the walk is halted.
  bool push(uint8_t byte);
  // Removes the last level; must not remove the first.
  void pop();
  size_t levels() const { return levels_.size(); }

  // Returns the number of elementary steps of all walks so far, about 10 ns each. It is the same on
  // every machine, so the same walks are halted everywhere.
  uint64_t steps() const { return steps_; }

  // Returns the places of the last level. The span is valid until the next change of the walker.
  std::span<const Place> places() const {
    return std::span(places_).subspan(levels_.back().first_place);
  }
  // Returns whether the text may end here.
  bool complete() const { return levels_.back().complete; }
  // Returns whether a rule has returned to unknown_frame() with the last byte.
  bool escaped() const { return levels_.back().escaped; }

  // Replaces frames of the walk's arena by counted ones; each place gets a reference.
  void keep(std::span<Place> places) { arena_.keep_all(places); }

 private:
  struct Level {
    size_t first_place = 0;
    bool complete = false, escaped = false;
    FrameArena::Mark frames;  // frames before the level
  };

  void start_walk(const Program& program);
  uint32_t rounds_after(const Node& from, uint32_t rounds, const Node& to) const;
  bool may_end(const Node& node, uint32_t rounds) const;
  bool has_edge(const Place& place) const;
  void add(const Place& place);
  bool is_new(const Place& place);
  bool index_place(const Place& place, size_t index);
  void step();
  void return_from(const Frame* frame);
  void call(const Node& from, const Place& place);
  void close();
  // Returns a frame that returns to the callers of both frames: one of the two if it includes all
  // of them. Null if that is too deep, or one of the frames is unknown.
  const Frame* join(const Frame* a, const Frame* b, size_t depth);
  // Joins the frames of places at one node and returns the hash of the remaining places, which are
  // canonical.
  Hash128 join_places(std::vector<Place>& places, size_t depth);
  // Returns whether the level has a place at the same node that can continue in every way that
  // `place` can.
  bool is_covered(const Place& place);
  void join_level();

  const Program* program_ = nullptr;
  std::vector<Level> levels_;
  std::vector<Place> places_;
  // Indexed by CompiledRule::order, while a level is closed.
  std::vector<std::vector<Place>> callers_;
  std::vector<uint32_t> called_;  // a heap of orders with callers, lowest first
  // An entry of the index of the last level's places; the index is used once there are many.
  struct Slot {
    uint32_t place = 0;
    uint64_t level = 0;
  };
  std::vector<Slot> slots_;
  uint64_t level_number_ = 0;
  FrameArena arena_;
  // A result of join(). It is valid for the walk if one frame covers the other, and for the level
  // if a frame was made.
  struct Join {
    Hash128 a, b;
    uint64_t walk = 0, level = 0;
    bool covers = false, is_a = false;
    const Frame* made = nullptr;
  };
  std::vector<Join> joins_;
  uint64_t walk_ = 0;
  uint64_t last_join_step_ = UINT64_MAX;   // the last step at which this byte may join frames
  std::deque<std::vector<Place>> joined_;  // reused memory, indexed by depth
  uint64_t steps_ = 0;
  uint64_t last_step_ = UINT64_MAX;  // the last step that this byte may take
  uint64_t limit_ = UINT64_MAX;      // the walk's last step
  bool too_many_ = false;
  bool halted_ = false;
  bool bounded_ = true;
};

}  // namespace forerun::grammar
