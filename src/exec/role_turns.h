// Whose Step comes next where both models share devices.
#pragma once

#include <optional>

#include "exec/role_worker.h"
#include "step/types.h"

namespace forerun {

// The draft's Steps as long as somebody drafts, so that what is drafted at the same time is
// verified together; a draft that only reads prompts takes turns with the target.
class RoleTurns {
 public:
  // Either worker may be null. Nothing where none is ready.
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
