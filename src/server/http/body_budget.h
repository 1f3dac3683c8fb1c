// The memory budget that the bodies of all requests share, from the first byte of a body until its
// request has been read. Bytes count once they have arrived; an announced Content-Length costs
// nothing.
//
// Thread rules: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace forerun::server {

class BodyBudget {
 public:
  // Bodies of up to this many bytes may use the whole budget, larger ones 7/8 of it: so large
  // bodies that stall do not block small calls.
  static constexpr int64_t kSmallBody = 64 << 10;

  explicit BodyBudget(int64_t max_bytes) : max_bytes_(max_bytes) {}

  int64_t used() const { return used_; }
  // Returns whether a body of `bytes` would fit now.
  bool has_room(int64_t bytes) const { return used_ + bytes <= limit(bytes); }

 private:
  friend class BodyMemory;
  bool take(int64_t bytes, int64_t body_bytes);
  int64_t limit(int64_t body_bytes) const {
    return body_bytes <= kSmallBody ? max_bytes_ : max_bytes_ - max_bytes_ / 8;
  }

  const int64_t max_bytes_;
  std::atomic<int64_t> used_{0};
};

// One body's part of the budget; the destructor gives it back.
class BodyMemory {
 public:
  explicit BodyMemory(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  ~BodyMemory();
  BodyMemory(const BodyMemory&) = delete;
  BodyMemory& operator=(const BodyMemory&) = delete;

  // Raises the body's part to `bytes`, which must not be less than before. Returns false if the
  // budget has no room; then nothing has changed.
  bool grow_to(int64_t bytes);

 private:
  const std::shared_ptr<BodyBudget> budget_;
  int64_t bytes_ = 0;
};

}  // namespace forerun::server
