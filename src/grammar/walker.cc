#include "grammar/walker.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace forerun::grammar {
namespace {

constexpr size_t kFew = 12;      // number of places up to which they are compared one by one
constexpr size_t kJoins = 1024;  // number of joins that are remembered

}  // namespace

void Walker::start_walk(const Program& program) {
  program_ = &program;
  levels_.clear();
  places_.clear();
  arena_.release_to({});
  if (callers_.size() < program.rules.size()) callers_.resize(program.rules.size());
  too_many_ = halted_ = false;
  bounded_ = true;
  limit_ = UINT64_MAX;
  last_step_ = steps_ + kMaxStepsOfByte;
  last_join_step_ = steps_ + kMaxJoinSteps;
  ++level_number_;
  ++walk_;
  levels_.emplace_back();
}

uint32_t Walker::rounds_after(const Node& from, uint32_t rounds, const Node& to) const {
  if (bounded_ || from.loop == LoopPart::kOutside) return program_->rounds_after(from, rounds, to);
  if (to.loop == LoopPart::kOutside) return 0;
  return to.loop == LoopPart::kHead ? rounds + 1 : rounds;
}

bool Walker::may_end(const Node& node, uint32_t rounds) const {
  return bounded_ ? program_->may_end(node, rounds) : node.accepting;
}

void Walker::begin_at_root(const Program& program) {
  start_walk(program);
  const CompiledRule& root = program.rules[program.root];
  const Place end{kEndNode, 0, nullptr};
  callers_[root.order].push_back(end);
  called_.push_back(root.order);
  levels_.back().complete = root.reads_empty;
  close();
  halted_ = std::exchange(too_many_, false);
}

void Walker::begin(const Program& program, std::span<const Place> places, bool complete) {
  start_walk(program);
  places_.assign(places.begin(), places.end());
  levels_.back().complete = complete;
}

void Walker::begin_unbounded(const Program& program, const Place& place) {
  begin(program, {&place, 1}, false);
  bounded_ = false;
}

void Walker::begin_after(const Program& program, const Frame* frame) {
  start_walk(program);
  return_from(frame);
  close();
  halted_ = std::exchange(too_many_, false);
}

bool Walker::push(uint8_t byte) {
  const size_t first = levels_.back().first_place;
  const size_t count = places_.size() - first;
  steps_ += count;
  halted_ = steps_ > limit_;
  if (halted_) return false;
  last_step_ = std::min(limit_, steps_ + kMaxStepsOfByte);
  last_join_step_ = steps_ + kMaxJoinSteps;
  ++level_number_;
  levels_.push_back({places_.size(), false, false, arena_.mark()});
  if (count == 1) {
    // Most texts at most places need only a step within one rule.
    const Place from = places_[first];
    const Node& node = program_->nodes[from.node];
    const uint32_t target = program_->target(node, byte);
    if (target == kNoNode) {
      levels_.pop_back();
      return false;
    }
    const Node& next = program_->nodes[target];
    if (next.plain) {
      places_.push_back({target, 0, from.frame});
      return true;
    }
  }
  for (size_t i = first; i < first + count; ++i) {
    const Place from = places_[i];
    const Node& node = program_->nodes[from.node];
    const uint32_t target = program_->target(node, byte);
    if (target == kNoNode) continue;
    const uint32_t rounds = rounds_after(node, from.rounds, program_->nodes[target]);
    if (rounds != kNoNode) add({target, rounds, from.frame});
  }
  close();
  const Level& level = levels_.back();
  if (!too_many_ && (places_.size() > level.first_place || level.complete || level.escaped)) {
    return true;
  }
  halted_ = std::exchange(too_many_, false);
  pop();
  return false;
}

void Walker::pop() {
  places_.resize(levels_.back().first_place);
  arena_.release_to(levels_.back().frames);
  levels_.pop_back();
}

void Walker::step() {
  if (++steps_ > last_step_) too_many_ = true;
}

void Walker::add(const Place& place) {
  step();
  if (too_many_ || !is_new(place) || is_covered(place)) return;
  if (places_.size() - levels_.back().first_place >= kMaxPlaces) {
    too_many_ = true;
    return;
  }
  places_.push_back(place);
}

// Compares a few places one by one, and looks up many.
bool Walker::is_new(const Place& place) {
  const size_t first = levels_.back().first_place, count = places_.size() - first;
  if (count < kFew) {
    return std::none_of(places_.begin() + static_cast<std::ptrdiff_t>(first), places_.end(),
                        [&](const Place& other) { return same_place(other, place); });
  }
  if (count == kFew) {
    for (size_t i = first; i < places_.size(); ++i) index_place(places_[i], i);
  }
  return index_place(place, places_.size());
}

// Adds the place to the index; returns false if the index has an equal place.
bool Walker::index_place(const Place& place, size_t index) {
  if (slots_.empty()) slots_.resize(4 * kMaxPlaces);
  uint64_t hash = text::mix_bits(static_cast<uint64_t>(place.node) << 32 | place.rounds);
  if (place.frame) hash = text::mix_bits(hash ^ place.frame->hash.low);
  size_t slot = static_cast<size_t>(hash) % slots_.size();
  for (; slots_[slot].level == level_number_; slot = (slot + 1) % slots_.size()) {
    if (same_place(places_[slots_[slot].place], place)) return false;
  }
  slots_[slot] = {static_cast<uint32_t>(index), level_number_};
  return true;
}

bool Walker::is_covered(const Place& place) {
  const size_t first = levels_.back().first_place;
  if (places_.size() - first >= kFew) return false;
  for (size_t i = first; i < places_.size(); ++i) {
    const Place other = places_[i];
    if (other.node != place.node || other.rounds != place.rounds) continue;
    if (join(other.frame, place.frame, 0) == other.frame) return true;
  }
  return false;
}

const Frame* Walker::join(const Frame* a, const Frame* b, size_t depth) {
  if (a == b) return a;
  const auto is_known = [](const Frame* frame) { return frame && frame != unknown_frame(); };
  if (!is_known(a) || !is_known(b) || depth >= kMaxJoinDepth) return nullptr;
  if (a->hash == b->hash) return a;
  step();
  if (too_many_ || steps_ > last_join_step_) return nullptr;
  if (joins_.empty()) joins_.resize(kJoins);
  Join& remembered = joins_[(a->hash.low ^ b->hash.high) % kJoins];
  if (remembered.a == a->hash && remembered.b == b->hash) {
    if (remembered.walk == walk_ && remembered.covers) return remembered.is_a ? a : b;
    if (remembered.level == level_number_ && !remembered.covers) return remembered.made;
  }
  while (joined_.size() <= depth) joined_.emplace_back();
  std::vector<Place>& callers = joined_[depth];
  callers.assign(a->places().begin(), a->places().end());
  callers.insert(callers.end(), b->places().begin(), b->places().end());
  steps_ += callers.size();
  const Hash128 hash = join_places(callers, depth + 1);
  if (too_many_) return nullptr;
  Join& found = joins_[(a->hash.low ^ b->hash.high) % kJoins];
  found = {.a = a->hash, .b = b->hash, .walk = walk_, .level = level_number_};
  found.is_a = hash == a->hash;
  found.covers = found.is_a || hash == b->hash;
  if (found.covers) return found.is_a ? a : b;
  found.made = arena_.make(hash, callers);
  return found.made;
}

Hash128 Walker::join_places(std::vector<Place>& places, size_t depth) {
  Hash128 hash = make_canonical(places);
  size_t kept = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (kept > 0 && places[kept - 1].node == places[i].node &&
        places[kept - 1].rounds == places[i].rounds) {
      if (const Frame* both = join(places[kept - 1].frame, places[i].frame, depth)) {
        places[kept - 1].frame = both;
        continue;
      }
    }
    places[kept++] = places[i];
  }
  if (kept == places.size()) return hash;
  places.resize(kept);
  return make_canonical(places);
}

void Walker::join_level() {
  const size_t first = levels_.back().first_place;
  const std::span<const Place> level = std::span(places_).subspan(first);
  const auto has_twin = [&](size_t i) {
    return std::any_of(level.begin(), level.begin() + static_cast<std::ptrdiff_t>(i),
                       [&](const Place& other) {
                         return other.node == level[i].node && other.rounds == level[i].rounds;
                       });
  };
  bool twins = level.size() >= kFew;
  for (size_t i = 1; i < level.size() && !twins; ++i) twins = has_twin(i);
  if (!twins) return;
  std::vector<Place> all(level.begin(), level.end());
  steps_ += all.size();
  join_places(all, 0);
  places_.resize(first);
  places_.insert(places_.end(), all.begin(), all.end());
  ++level_number_;
  if (all.size() < kFew) return;
  for (size_t i = first; i < places_.size(); ++i) index_place(places_[i], i);
}

void Walker::return_from(const Frame* frame) {
  if (frame == unknown_frame()) {
    levels_.back().escaped = true;
    return;
  }
  for (const Place& caller : frame->places()) {
    if (caller.node == kEndNode) {
      levels_.back().complete = true;
    } else {
      add(caller);
    }
  }
}

// Registers the calls at `place` with the frames that they will share.
void Walker::call(const Node& from, const Place& place) {
  for (const CallEdge& edge : program_->calls_of(from)) {
    const Node& back = program_->nodes[edge.target];
    const uint32_t rounds = rounds_after(from, place.rounds, back);
    if (rounds == kNoNode) continue;
    const uint32_t order = program_->rules[edge.rule].order;
    std::vector<Place>& callers = callers_[order];
    if (callers.empty()) {
      called_.push_back(order);
      std::push_heap(called_.begin(), called_.end(), std::greater<>());
    }
    step();
    // If the caller may end with the call, the call also returns to the caller's callers. So a
    // frame lists all places to which a text may return at once, and the frames of a longer stack
    // mostly include those of a shorter one. Tail recursion does not grow the stack.
    const bool inherits = place.frame != unknown_frame() && may_end(back, rounds);
    if (inherits) {
      callers.insert(callers.end(), place.frame->places().begin(), place.frame->places().end());
      steps_ += place.frame->caller_count;
    }
    if (!inherits || !back.only_accepting) callers.push_back({edge.target, rounds, place.frame});
    if (steps_ > last_step_) too_many_ = true;
  }
}

void Walker::close() {
  const size_t first = levels_.back().first_place;
  for (size_t i = first; i < places_.size() && !too_many_; ++i) {
    const Place place = places_[i];
    if (may_end(program_->nodes[place.node], place.rounds)) return_from(place.frame);
  }
  if (!too_many_) join_level();
  for (size_t i = first; i < places_.size() && !too_many_; ++i) {
    const Node& node = program_->nodes[places_[i].node];
    if (node.call_count != 0) call(node, places_[i]);
  }
  while (!called_.empty()) {
    std::pop_heap(called_.begin(), called_.end(), std::greater<>());
    const uint32_t order = called_.back();
    called_.pop_back();
    std::vector<Place>& callers = callers_[order];
    if (!too_many_) {
      steps_ += callers.size() - 1;
      const Hash128 hash = join_places(callers, 0);
      too_many_ = too_many_ || callers.size() > kMaxPlaces;
      const CompiledRule& rule = program_->rules[program_->rule_of_order[order]];
      const Node& start = program_->nodes[rule.start];
      const uint32_t rounds = start.loop == LoopPart::kHead ? rule.initial_rounds : 0;
      const Place place{rule.start, rounds, arena_.make(hash, callers)};
      add(place);
      if (start.call_count != 0) call(start, place);
    }
    callers.clear();
  }
  // If only calls begin here, or the remaining rounds forbid every edge, no byte can be read here.
  places_.erase(std::remove_if(places_.begin() + static_cast<std::ptrdiff_t>(first), places_.end(),
                               [&](const Place& place) { return !has_edge(place); }),
                places_.end());
}

bool Walker::has_edge(const Place& place) const {
  const Node& node = program_->nodes[place.node];
  if (node.loop != LoopPart::kHead) return node.edge_count != 0;
  const auto edges = program_->edges_of(node);
  return std::any_of(edges.begin(), edges.end(), [&](const ByteEdge& edge) {
    return rounds_after(node, place.rounds, program_->nodes[edge.target]) != kNoNode;
  });
}

}  // namespace forerun::grammar
