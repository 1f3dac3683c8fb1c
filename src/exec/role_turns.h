// The choice of the model that runs the next Step if both models share devices.
#pragma once

#include <optional>

#include "exec/role/role_worker.h"
#include "step/types.h"

namespace forerun {

// The turns of two models. The draft's Steps come first while any request drafts, so that
// simultaneous guesses are verified together. A draft that only reads prompts alternates with the
// target.
class RoleTurns {
 public:
  // Returns the role of the next Step; nothing if neither is ready. Either worker may be null.
  std::optional<Role> next(const RoleWorker* target, const RoleWorker* draft) {
    const bool target_ready = target != nullptr && target->ready();
    if (draft == nullptr || !draft->ready()) {
      draft_was_last_ = false;
      return target_ready ? std::optional(Role::kTarget) : std::nullopt;
    }
    draft_was_last_ = !target_ready || draft->decodes() || !draft_was_last_;
    return draft_was_last_ ? Role::kDraft : Role::kTarget;
  }

 private:
  bool draft_was_last_ = false;
};

}  // namespace forerun
