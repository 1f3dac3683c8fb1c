#include "drafts/ngram_source.h"

#include <algorithm>
#include <cmath>

namespace forerun {
namespace {

uint64_t hash_of(std::span<const TokenId> tokens) {
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (TokenId token : tokens) {
    hash ^= static_cast<uint32_t>(token);
    hash *= 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

NgramSource::NgramSource(const Params& params) : params_(params) {
  params_.max_order = std::clamp(params_.max_order, 1, kMaxOrder);
  params_.min_order = std::clamp(params_.min_order, 1, params_.max_order);
  params_.max_scanned = std::max(params_.max_scanned, 1);
  orders_.resize(static_cast<size_t>(params_.max_order));
}

void NgramSource::observe(std::span<const TokenId> tokens) {
  for (TokenId token : tokens) {
    // The n-grams that ended just before `token` now have a successor.
    const size_t position = tokens_.size();
    for (int32_t n = params_.min_order; n <= params_.max_order; ++n) {
      Order& order = orders_[static_cast<size_t>(n - 1)];
      int32_t before = -1;
      if (position >= static_cast<size_t>(n)) {
        const std::span<const TokenId> gram(tokens_.data() + position - static_cast<size_t>(n),
                                            static_cast<size_t>(n));
        const auto [entry, fresh] =
            order.latest.try_emplace(hash_of(gram), static_cast<int32_t>(position));
        if (!fresh) {
          before = entry->second;
          entry->second = static_cast<int32_t>(position);
        }
      }
      order.previous.push_back(before);
    }
    tokens_.push_back(token);
  }
}

void NgramSource::successors(std::span<const TokenId> context, std::vector<Successor>& out) const {
  out.clear();
  const size_t n = context.size();
  const Order& order = orders_[n - 1];
  const auto found = order.latest.find(hash_of(context));
  if (found == order.latest.end()) return;
  int32_t position = found->second;
  for (int32_t scanned = 0; position >= 0 && scanned < params_.max_scanned; ++scanned) {
    const auto place = static_cast<size_t>(position);
    position = order.previous[place];
    if (!std::equal(context.begin(), context.end(), tokens_.data() + place - n)) continue;
    const TokenId token = tokens_[place];
    const auto same =
        std::find_if(out.begin(), out.end(), [&](const Successor& s) { return s.token == token; });
    if (same == out.end()) {
      out.push_back({token, 1});
    } else {
      ++same->count;
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Successor& a, const Successor& b) { return a.count > b.count; });
}

void NgramSource::propose(std::span<const TokenId> path, int32_t count,
                          std::vector<Candidate>& out) const {
  out.clear();
  if (count <= 0) return;
  const auto longest = static_cast<size_t>(params_.max_order);
  tail_.clear();
  if (path.size() < longest) {
    const size_t from_seen = std::min(longest - path.size(), tokens_.size());
    tail_.assign(tokens_.end() - static_cast<std::ptrdiff_t>(from_seen), tokens_.end());
  }
  const size_t from_path = std::min(path.size(), longest);
  tail_.insert(tail_.end(), path.end() - static_cast<std::ptrdiff_t>(from_path), path.end());

  float mass = 1.0f;
  for (int32_t n = params_.max_order; n >= params_.min_order; --n) {
    const auto length = static_cast<size_t>(n);
    if (tail_.size() < length) continue;
    successors({tail_.data() + tail_.size() - length, length}, successors_);
    if (successors_.empty()) continue;
    int32_t total = 0;
    for (const Successor& successor : successors_) total += successor.count;
    const float unit = mass / static_cast<float>(total + static_cast<int32_t>(successors_.size()));
    for (const Successor& successor : successors_) {
      const float p = unit * static_cast<float>(successor.count);
      const auto same = std::find_if(out.begin(), out.end(), [&](const Candidate& candidate) {
        return candidate.token == successor.token;
      });
      // `logprob` holds probabilities here; the end of the function takes their logs.
      if (same == out.end()) {
        out.push_back({successor.token, p});
      } else {
        same->logprob += p;
      }
    }
    mass = unit * static_cast<float>(successors_.size());
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logprob > b.logprob; });
  if (out.size() > static_cast<size_t>(count)) out.resize(static_cast<size_t>(count));
  for (Candidate& candidate : out) candidate.logprob = std::log(candidate.logprob);
}

}  // namespace forerun
