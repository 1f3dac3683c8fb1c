#include "text/pair_queue.h"

#include <algorithm>
#include <functional>

namespace forerun::text {

void PairQueue::reset(size_t num_ranks) {
  for (size_t idx = 0; idx < num_buckets_; ++idx) {
    Bucket& bucket = buckets_[idx];
    bucket_of_rank_[bucket.rank] = -1;
    bucket.in_order.clear();
    bucket.late.clear();
    bucket.begin = 0;
    bucket.is_open = false;
  }
  num_buckets_ = 0;
  open_.clear();
  if (bucket_of_rank_.size() < num_ranks) bucket_of_rank_.resize(num_ranks, -1);
}

void PairQueue::push(const Pair& pair) {
  int32_t& idx = bucket_of_rank_[pair.rank];
  if (idx < 0) {
    idx = static_cast<int32_t>(num_buckets_++);
    if (buckets_.size() < num_buckets_) buckets_.emplace_back();
    buckets_.at(static_cast<size_t>(idx)).rank = pair.rank;
  }
  Bucket& bucket = buckets_[static_cast<size_t>(idx)];
  bucket.joined = pair.joined;
  bucket.push(pair.pos);
  if (bucket.is_open) return;
  bucket.is_open = true;
  open_.push_back(pair.rank);
  std::push_heap(open_.begin(), open_.end(), std::greater<>());
}

std::optional<PairQueue::Pair> PairQueue::pop() {
  while (!open_.empty()) {
    Bucket& bucket = buckets_[static_cast<size_t>(bucket_of_rank_[open_.front()])];
    if (!bucket.empty()) return Pair{bucket.rank, bucket.pop(), bucket.joined};
    bucket.is_open = false;
    std::pop_heap(open_.begin(), open_.end(), std::greater<>());
    open_.pop_back();
  }
  return std::nullopt;
}

void PairQueue::Bucket::push(int32_t pos) {
  if (begin == in_order.size()) {
    in_order.clear();
    begin = 0;
  }
  if (in_order.empty() || pos >= in_order.back()) return in_order.push_back(pos);
  late.push_back(pos);
  std::push_heap(late.begin(), late.end(), std::greater<>());
}

int32_t PairQueue::Bucket::pop() {
  const bool has_order = begin < in_order.size();
  if (has_order && (late.empty() || in_order[begin] <= late.front())) return in_order[begin++];
  std::pop_heap(late.begin(), late.end(), std::greater<>());
  const int32_t pos = late.back();
  late.pop_back();
  return pos;
}

}  // namespace forerun::text
