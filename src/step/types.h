// Identifiers shared by policies and executors.
#pragma once

#include <cstdint>

namespace forerun {

using TokenId = int32_t;
using SequenceId = uint64_t;  // one per request for its lifetime

// A node of a request's token tree. Ids are never reused within a sequence, and do not depend on
// the slots of the node's KV on the target or the draft.
using NodeId = uint32_t;
inline constexpr NodeId kNoNode = 0xffffffffu;

// The model that a piece of work is for.
enum class Role : uint8_t { kTarget, kDraft };
inline constexpr int kNumRoles = 2;

constexpr const char* role_name(Role role) { return role == Role::kTarget ? "target" : "draft"; }

// A token and its natural log-probability (or log-score) under whatever model proposed it.
struct Candidate {
  TokenId token = 0;
  float logprob = 0.0f;
};

}  // namespace forerun
