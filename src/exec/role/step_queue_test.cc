// Tests the order in a Step's queue, and waits for memory.
#include "exec/role/step_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "exec/role/memory_waits.h"
#include "kv/block_pool.h"

namespace forerun {
namespace {

// Sequences with one item each: a prompt, or a sampled row.
class Sequences {
 public:
  RoleSequence* add(int32_t priority, bool prompt, uint64_t arrival = 0) {
    SequenceSpec spec;
    spec.priority = priority;
    spec.max_tokens = 64;
    const auto id = static_cast<SequenceId>(owned_.size() + 1);
    owned_.push_back(std::make_unique<RoleSequence>(id, spec, &pool_, nullptr, 8));
    RoleSequence& sequence = *owned_.back();
    sequence.arrival = arrival;
    PendingItem item;
    item.item.rows.resize(prompt ? 20 : 1);
    item.item.rows.back().want = Want::kSample;
    sequence.queue.push_back(std::move(item));
    ready_.push_back(&sequence);
    return &sequence;
  }
  std::vector<RoleSequence*>& ready() { return ready_; }
  BlockPool& pool() { return pool_; }

 private:
  BlockPool pool_{8};
  std::vector<std::unique_ptr<RoleSequence>> owned_;
  std::vector<RoleSequence*> ready_;
};

std::vector<RoleSequence*> order_of(const StepQueue& queue) {
  std::vector<RoleSequence*> order;
  for (const StepQueue::Entry& entry : queue.all()) order.push_back(entry.sequence);
  return order;
}

TEST(StepQueue, DecodingThenPromptsByPriorityThenInOrder) {
  Sequences sequences;
  RoleSequence* late_prompt = sequences.add(0, true, 7);
  RoleSequence* early_prompt = sequences.add(0, true, 3);
  RoleSequence* urgent_prompt = sequences.add(5, true, 9);
  RoleSequence* first = sequences.add(0, false, 8);
  RoleSequence* second = sequences.add(0, false, 1);
  RoleSequence* urgent = sequences.add(1, false);
  StepQueue queue;
  queue.set(sequences.ready());
  EXPECT_EQ(order_of(queue), (std::vector<RoleSequence*>{urgent, first, second, urgent_prompt,
                                                         early_prompt, late_prompt}));
  EXPECT_EQ(queue.decoding().size(), 3u);
  EXPECT_EQ(queue.prompts().size(), 3u);
}

TEST(StepQueue, ASequenceThatIsPassedOverComesFirstInOneStepOfSixteen) {
  Sequences sequences;
  RoleSequence* urgent = sequences.add(1, false);
  RoleSequence* patient = sequences.add(0, false);
  StepQueue queue;
  std::vector<int> steps;  // Steps in which the passed-over sequence was first
  for (int step = 0; step < 48; ++step) {
    queue.set(sequences.ready());
    if (order_of(queue).front() == patient) steps.push_back(step);
    patient->passed_over = order_of(queue).front() == patient ? 0 : patient->passed_over + 1;
    urgent->passed_over = 0;
  }
  EXPECT_EQ(steps, (std::vector<int>{15, 31, 47}));
}

TEST(MemoryWaits, AreOverOnceThereAreMoreBlocksOrASequenceHasClosed) {
  Sequences sequences;
  RoleSequence* starved = sequences.add(0, false);
  RoleSequence* other = sequences.add(0, false);
  sequences.ready() = {other};
  RoleSequence* holder = sequences.add(0, false);
  sequences.ready() = {other};
  ASSERT_TRUE(holder->kv.reserve(64).ok());
  MemoryWaits waits(&sequences.pool());
  waits.add(*starved);
  EXPECT_TRUE(starved->is_queued);
  EXPECT_FALSE(waits.has_returned());
  waits.take(sequences.ready());
  EXPECT_EQ(sequences.ready(), std::vector<RoleSequence*>{other});
  waits.note_closed();
  EXPECT_TRUE(waits.has_returned());
  waits.take(sequences.ready());
  EXPECT_EQ(sequences.ready(), (std::vector<RoleSequence*>{starved, other}));
  waits.add(*starved);
  EXPECT_FALSE(waits.has_returned());
  waits.forget(*starved);
  waits.note_closed();
  EXPECT_FALSE(waits.has_returned());
}

}  // namespace
}  // namespace forerun
