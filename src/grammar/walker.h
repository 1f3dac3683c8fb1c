// Walker: follows a grammar through bytes, one level a byte, and back. The machine itself.
//
// A level is the set of places (frame.h) where the grammar can be after the bytes so far. It is
// closed: rules that are over have returned, and rules that can begin have their starts in the set;
// places at which only calls begin are left out.
//
// A text that can be read in many ways leads to one node with many frames. Such places are joined
// into one, whose frame returns to the callers of all. So a level has about as many places as the
// grammar has nodes, however long the text is. Places whose frames are too deep are not joined,
// which only makes the level longer.
//
// A walker keeps its memory from walk to walk, so each thread keeps one. Not thread-safe. The
// program and the frames of the first level must outlive the walk.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "grammar/frame.h"
#include "grammar/program.h"

namespace forerun::grammar {

// Places of one level, callers of one frame, and steps that one byte may take, past which a walk
// is halted: only a grammar that reads one text in very many ways comes near.
constexpr size_t kMaxPlaces = 1024;
constexpr uint64_t kMaxStepsOfByte = 200'000;
// The depth to which frames are searched when they are joined, and how many of a byte's steps that
// may take.
constexpr size_t kMaxJoinDepth = 2000;
constexpr uint64_t kMaxJoinSteps = 50'000;

class Walker {
 public:
  // The first level is the closure of where `program` begins.
  void begin_at_root(const Program& program);
  // The first level is a level of an earlier walk.
  void begin(const Program& program, std::span<const Place> places, bool complete);
  // The first level is one place, and loops count their rounds without bounds.
  void begin_unbounded(const Program& program, const Place& place);
  // The first level is where a rule with frame `frame` may be after its end. halted() where that
  // is past a bound of one level, as after begin_at_root().
  void begin_after(const Program& program, const Frame* frame);

  // Halts the present walk once it has taken more than `steps` further steps.
  void limit(uint64_t steps) { limit_ = steps < UINT64_MAX - steps_ ? steps_ + steps : UINT64_MAX; }
  // Whether the last push() stopped at limit() or at a bound of one level; whether the byte is
  // allowed is then unknown.
  bool halted() const { return halted_; }

  // Reads one byte. False, and no level is added, where the grammar cannot go on with it, or where
  // the walk is halted.
  bool push(uint8_t byte);
  // Takes the last level back; never the first.
  void pop();
  size_t levels() const { return levels_.size(); }

  // Elementary steps of all walks so far, some 10 ns each: the same on every machine, so what is
  // given up for them is too.
  uint64_t steps() const { return steps_; }

  // The places of the last level. The span is valid until the next change of the walker.
  std::span<const Place> places() const {
    return std::span(places_).subspan(levels_.back().first_place);
  }
  // Whether the text may end here.
  bool complete() const { return levels_.back().complete; }
  // Whether a rule has returned to unknown_frame() with the last byte.
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
  // A frame that returns to the callers of both frames: one of the two where it names all of them.
  // Null where that is too deep, or one of the frames is unknown.
  const Frame* join(const Frame* a, const Frame* b, size_t depth);
  // Joins the frames of places at one node and returns the hash of what is left, canonical.
  Hash128 join_places(std::vector<Place>& places, size_t depth);
  // Whether the level has a place at the same node that can continue in every way `place` can.
  bool is_covered(const Place& place);
  void join_level();

  const Program* program_ = nullptr;
  std::vector<Level> levels_;
  std::vector<Place> places_;
  std::vector<std::vector<Place>> callers_;  // by CompiledRule::order, while a level is closed
  std::vector<uint32_t> called_;             // a heap of orders with callers, lowest first
  // An entry of the index of the last level's places, which is used once they are many.
  struct Slot {
    uint32_t place = 0;
    uint64_t level = 0;
  };
  std::vector<Slot> slots_;
  uint64_t level_number_ = 0;
  FrameArena arena_;
  // A result of join(). It is valid for the walk where one frame covers the other, for the level
  // where a frame was made.
  struct Join {
    Hash128 a, b;
    uint64_t walk = 0, level = 0;
    bool covers = false, is_a = false;
    const Frame* made = nullptr;
  };
  std::vector<Join> joins_;
  uint64_t walk_ = 0;
  uint64_t last_join_step_ = UINT64_MAX;   // the last step in which this byte may join frames
  std::deque<std::vector<Place>> joined_;  // scratch, by depth
  uint64_t steps_ = 0;
  uint64_t last_step_ = UINT64_MAX;  // the last step that this byte may take
  uint64_t limit_ = UINT64_MAX;      // the walk's last step
  bool too_many_ = false;
  bool halted_ = false;
  bool bounded_ = true;
};

}  // namespace forerun::grammar
