#include "engine/loop/kv_reservations.h"

#include <algorithm>
#include <utility>

#include "step/step.h"

namespace forerun {
namespace {

constexpr auto kPage = static_cast<size_t>(kKvBlockTokens);

int64_t blocks_of(size_t tokens) { return static_cast<int64_t>((tokens + kPage - 1) / kPage); }

// Returns the name of a full page, which is a hash of its tokens and all tokens before them. If two
// texts had the same name, the count would only be off by some blocks.
uint64_t page_name(uint64_t before, std::span<const TokenId> page) {
  uint64_t hash = before + 0x9e3779b97f4a7c15u;
  for (const TokenId token : page) {
    hash = (hash ^ static_cast<uint64_t>(token)) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

KvReservations::Claim::Claim(std::span<const TokenId> text, bool shares, uint64_t salt,
                             int64_t view_blocks)
    : own_blocks_(blocks_of(text.size()) + view_blocks) {
  if (!shares) return;
  uint64_t name = salt;
  for (size_t begin = 0; begin + kPage <= text.size(); begin += kPage) {
    name = page_name(name, text.subspan(begin, kPage));
    pages_.push_back(name);
  }
  own_blocks_ -= static_cast<int64_t>(pages_.size());
}

bool KvReservations::has_room(Claim& claim, int64_t running) const {
  if (running == 0) return true;
  if (claim.version_ != version_) {
    claim.version_ = version_;
    // A page's name covers all pages before it, so behind a page that no request holds, no page is
    // held.
    const auto first = std::find_if(claim.pages_.begin(), claim.pages_.end(),
                                    [&](uint64_t name) { return !pages_.contains(name); });
    claim.pages_to_take_ = claim.pages_.end() - first;
  }
  const int64_t blocks = claim.own_blocks_ + claim.pages_to_take_;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (role == Role::kDraft && !draft_keeps_all_) continue;
    const KvUsage usage = executor_->kv_usage(role);
    if (usage.total_blocks == 0) continue;
    const int64_t free =
        usage.total_blocks - usage.used_blocks - reserved_[static_cast<size_t>(role)];
    if (free < blocks + 1 + running) return false;
  }
  return true;
}

void KvReservations::reserve(const Claim& claim, Reservation& reservation) {
  reservation = {};
  reservation.pages.reserve(claim.pages_.size());
  reservation.own_blocks = claim.own_blocks_;
  for (int64_t& blocks : reserved_) blocks += reservation.own_blocks;
  for (const uint64_t name : claim.pages_) {
    Page& page = pages_[name];
    reservation.pages.push_back(name);
    if (page.holders++ > 0) continue;
    for (int64_t& blocks : reserved_) ++blocks;
    ++version_;
  }
}

void KvReservations::note_read(Reservation& reservation, Role role) {
  const auto index = static_cast<size_t>(role);
  if (std::exchange(reservation.has_read[index], true)) return;
  reserved_[index] -= reservation.own_blocks;
  for (const uint64_t name : reservation.pages) {
    if (pages_.at(name).readers[index]++ == 0) --reserved_[index];
  }
}

void KvReservations::release(Reservation& reservation) {
  for (size_t role = 0; role < reserved_.size(); ++role) {
    if (!reservation.has_read[role]) reserved_[role] -= reservation.own_blocks;
    for (const uint64_t name : reservation.pages) {
      Page& page = pages_.at(name);
      const bool was_reserved = page.readers[role] == 0;
      if (reservation.has_read[role]) --page.readers[role];
      const bool is_reserved = page.readers[role] == 0 && page.holders > 1;
      reserved_[role] += static_cast<int64_t>(is_reserved) - static_cast<int64_t>(was_reserved);
    }
  }
  for (const uint64_t name : reservation.pages) {
    const auto found = pages_.find(name);
    if (--found->second.holders > 0) continue;
    pages_.erase(found);
    ++version_;
  }
  reservation = {};
}

}  // namespace forerun
