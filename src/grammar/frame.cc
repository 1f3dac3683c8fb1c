#include "grammar/frame.h"

#include <algorithm>
#include <new>

namespace forerun::grammar {
namespace {

Frame* as_mutable(const Frame* frame) { return const_cast<Frame*>(frame); }

constexpr size_t kPlacesOffset =
    (sizeof(Frame) + alignof(Place) - 1) / alignof(Place) * alignof(Place);

}  // namespace

const Frame* unknown_frame() {
  static const Frame frame = [] {
    return Frame{.hash = {0x243f6a8885a308d3u, 0x13198a2e03707344u}};
  }();
  return &frame;
}

bool place_before(const Place& a, const Place& b) {
  if (a.node != b.node) return a.node < b.node;
  if (a.rounds != b.rounds) return a.rounds < b.rounds;
  if (!a.frame || !b.frame) return !a.frame && b.frame;
  return a.frame->hash < b.frame->hash;
}

Hash128 make_canonical(std::vector<Place>& places) {
  std::sort(places.begin(), places.end(), place_before);
  places.erase(std::unique(places.begin(), places.end(), same_place), places.end());
  Hash128 hash;
  for (const Place& place : places) {
    hash.mix(static_cast<uint64_t>(place.node) << 32 | place.rounds);
    if (place.frame) hash.mix(place.frame->hash);
  }
  return hash;
}

const Frame* new_counted_frame(Hash128 hash, std::span<const Place> callers) {
  // One block holds the frame and then its places.
  auto* block =
      static_cast<std::byte*>(::operator new(kPlacesOffset + callers.size() * sizeof(Place)));
  Frame* frame = new (block) Frame;
  auto* places = reinterpret_cast<Place*>(block + kPlacesOffset);
  std::uninitialized_copy(callers.begin(), callers.end(), places);
  for (const Place& place : callers) retain(place.frame);
  frame->hash = hash;
  frame->callers = places;
  frame->caller_count = static_cast<uint32_t>(callers.size());
  frame->counted = true;
  frame->references.store(1, std::memory_order_relaxed);
  return frame;
}

void retain(const Frame* frame) {
  if (frame && frame->counted) frame->references.fetch_add(1, std::memory_order_relaxed);
}

void release(const Frame* frame) {
  const auto is_last = [](const Frame* f) {
    return f && f->counted && f->references.fetch_sub(1, std::memory_order_acq_rel) == 1;
  };
  if (!is_last(frame)) return;
  // Frees a deep stack in a loop, since recursion as deep as the text nests could overflow.
  std::vector<const Frame*> open = {frame};
  while (!open.empty()) {
    const Frame* dead = open.back();
    open.pop_back();
    for (const Place& place : dead->places()) {
      if (is_last(place.frame)) open.push_back(place.frame);
    }
    as_mutable(dead)->~Frame();
    ::operator delete(as_mutable(dead));
  }
}

void* FrameArena::allocate(size_t bytes) {
  bytes = (bytes + 15) / 16 * 16;
  while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_].size) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    const size_t size = std::max(bytes, kChunkBytes);
    chunks_.push_back({std::make_unique<std::byte[]>(size), size});
  }
  void* at = chunks_[chunk_].bytes.get() + used_;
  used_ += bytes;
  return at;
}

const Frame* FrameArena::make(Hash128 hash, std::span<const Place> callers) {
  auto* block = static_cast<std::byte*>(allocate(kPlacesOffset + callers.size() * sizeof(Place)));
  Frame* frame = new (block) Frame;
  auto* places = reinterpret_cast<Place*>(block + kPlacesOffset);
  std::uninitialized_copy(callers.begin(), callers.end(), places);
  frame->hash = hash;
  frame->callers = places;
  frame->caller_count = static_cast<uint32_t>(callers.size());
  frames_.resize(frame_count_);
  frames_.push_back(frame);
  ++frame_count_;
  return frame;
}

void FrameArena::release_to(const Mark& mark) {
  // Frames of an arena own nothing, so there is nothing to destroy.
  frame_count_ = mark.frames;
  chunk_ = mark.chunk;
  used_ = mark.used;
}

void FrameArena::keep_all(std::span<Place> places) {
  // Wanted frames are marked from the newest to the oldest, then copied from the oldest on.
  std::vector<bool> wanted(frame_count_, false);
  const auto want = [&](const Frame* frame) {
    if (frame && !frame->counted && frame != unknown_frame()) {
      frame->kept_copy = frame;  // a mark; the copy replaces it below
    }
  };
  for (const Place& place : places) want(place.frame);
  for (size_t i = frame_count_; i-- > 0;) {
    if (!frames_[i]->kept_copy) continue;
    wanted[i] = true;
    for (const Place& caller : frames_[i]->places()) want(caller.frame);
  }
  const auto kept = [](const Frame* frame) {
    return frame && !frame->counted && frame->kept_copy ? frame->kept_copy : frame;
  };
  std::vector<Place> callers;
  for (size_t i = 0; i < frame_count_; ++i) {
    if (!wanted[i]) continue;
    callers.assign(frames_[i]->places().begin(), frames_[i]->places().end());
    for (Place& caller : callers) caller.frame = kept(caller.frame);
    frames_[i]->kept_copy = new_counted_frame(frames_[i]->hash, callers);
  }
  for (Place& place : places) {
    place.frame = kept(place.frame);
    retain(place.frame);
  }
  for (size_t i = 0; i < frame_count_; ++i) {
    if (!wanted[i]) continue;
    release(frames_[i]->kept_copy);
    frames_[i]->kept_copy = nullptr;
  }
}

}  // namespace forerun::grammar
