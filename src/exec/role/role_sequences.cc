#include "exec/role/role_sequences.h"

#include <utility>

namespace forerun {

void RoleSequences::open(SequenceId id, const SequenceSpec& spec) {
  SequenceSpec role_spec = spec;
  if (role_ == Role::kDraft) role_spec.sampling.prompt_logprobs = -1;
  auto opened =
      std::make_unique<RoleSequence>(id, role_spec, pool_, cache_, head_dim_, tap_places_);
  opened->arrival = ++openings_;
  sequences_.insert(id, std::move(opened));
}

void RoleSequences::close(RoleSequence& sequence) {
  std::unique_ptr<RoleSequence> taken = sequences_.take(sequence.id);
  std::erase(ready_, taken.get());
  count(*taken, -1);
  if (taken->steps_under_way == 0) return;
  taken->closed = true;
  closed_.push_back(std::move(taken));
}

void RoleSequences::forget_closed(RoleSequence& sequence) {
  std::erase_if(closed_, [&](const auto& closed) { return closed.get() == &sequence; });
}

void RoleSequences::set_follows(RoleSequence& sequence, bool follows) {
  if (sequence.follows == follows) return;
  count(sequence, -1);
  sequence.follows = follows;
  count(sequence, 1);
}

void RoleSequences::set_decodes(RoleSequence& sequence) {
  if (!std::exchange(sequence.decodes, true)) count(sequence, 1);
}

void RoleSequences::enqueue(RoleSequence& sequence) {
  if (sequence.is_queued || sequence.closed || !sequence.may_run()) return;
  sequence.is_queued = true;
  ready_.push_back(&sequence);
}

void RoleSequences::take_ready(std::vector<RoleSequence*>& taken) {
  taken.clear();
  taken.swap(ready_);
}

void RoleSequences::count(const RoleSequence& sequence, int32_t by) {
  if (!sequence.decodes) return;
  decoding_ += by;
  if (sequence.follows) following_ += by;
}

}  // namespace forerun
