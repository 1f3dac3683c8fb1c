// Decides which model runs the next Step where both models share devices.
#pragma once

#include <optional>

#include "exec/role/role_worker.h"
#include "step/types.h"

namespace forerun {

// The draft's Steps come first as long as any request drafts, so that guesses drafted at the same
// time are verified together. A draft that only reads prompts alternates with the target.
class RoleTurns {
 public:
  // Whose Step comes next; nothing where neither is ready. Either worker may be null.
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
