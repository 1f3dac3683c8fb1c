#include "exec/real_executor.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "base/clocks.h"
#include "base/later.h"
#include "device/cpu/short_slices.h"
#include "exec/role/role_worker.h"
#include "views/view_table.h"

namespace forerun {
namespace {

// Interval at which the executor checks late masks. Computing one takes longer than this.
constexpr std::chrono::microseconds kMaskLooks{200};

}  // namespace

// A role's worker, and its thread if it has one; calls reach the worker in order.
class RealExecutor::RoleThread {
 public:
  // `target` is the target's worker if this role reads its hidden states. `outbox` carries results
  // of threaded roles to next().
  RoleThread(Role role, StepRunner* runner, RoleWorker* target, const RealExecutorOptions& options,
             Mailbox<FinishedItem>* outbox)
      : worker_(role, runner, StepScheduler(role, options.budget, options.costs), options.on_step,
                options.trace, target),
        outbox_(outbox),
        threaded_(options.threaded[static_cast<size_t>(role)]),
        inbox_(options.spin) {
    if (!threaded_) return;
    if (runner->pipelined() != nullptr) {
      worker_.set_pipelined([this](PipelineEvent event) { post(std::move(event)); });
    }
    thread_ = std::thread([this, role, start = options.on_thread_start] {
      ask_for_short_slices();
      if (start) start(role);
      run();
    });
  }

  // Waits for Steps in flight; no callback runs afterwards.
  void stop() {
    if (!threaded_) return;
    post(Stop{});
    thread_.join();
  }

  bool threaded() const { return threaded_; }
  // Returns null if the worker runs on the role's thread.
  RoleWorker* inline_worker() { return threaded_ ? nullptr : &worker_; }
  KvUsage usage() const { return worker_.usage(); }

  void open(SequenceId sequence, const SequenceSpec& spec) {
    if (!threaded_) return worker_.open(sequence, spec);
    post(Open{sequence, spec});
  }
  // Submits an item, which the thread does not see before wake().
  void submit(PendingItem&& item) {
    if (!threaded_) return worker_.submit(std::move(item));
    inbox_.add(std::move(item));
    has_submitted_ = true;
  }
  void wake() {
    if (notices_answered_ != notices_taken_) {
      notices_answered_ = notices_taken_;
      inbox_.add(Answered{notices_answered_});
      has_submitted_ = true;
    }
    if (std::exchange(has_submitted_, false)) inbox_.wake();
  }
  // Records that next() has returned an entry notice; the strategy submits its follow-up work
  // before wake().
  void note_notice() { ++notices_taken_; }
  void close(SequenceId sequence) {
    if (!threaded_) return worker_.close(sequence);
    post(Close{sequence});
  }
  // Runs `function` on the role's thread and returns when it is done.
  void call(const std::function<void(RoleWorker&)>& function) {
    if (!threaded_) return function(worker_);
    std::mutex mutex;
    std::condition_variable finished;
    bool done = false;
    const std::function<void(RoleWorker&)> wrapped = [&](RoleWorker& worker) {
      function(worker);
      const std::lock_guard lock(mutex);
      done = true;
      finished.notify_one();
    };
    post(&wrapped);
    std::unique_lock lock(mutex);
    finished.wait(lock, [&done] { return done; });
  }

 private:
  struct Open {
    SequenceId sequence = 0;
    SequenceSpec spec;
  };
  struct Close {
    SequenceId sequence = 0;
  };
  using Call = const std::function<void(RoleWorker&)>*;
  struct Stop {};
  struct Answered {
    uint64_t notices = 0;  // number of answered notices so far
  };
  using Message = std::variant<PendingItem, Open, Close, Call, Stop, PipelineEvent, Answered>;

  void post(Message message) {
    inbox_.add(std::move(message));
    inbox_.wake();
  }

  void handle(Message& message, std::vector<FinishedItem>& finished) {
    if (auto* item = std::get_if<PendingItem>(&message)) {
      worker_.submit(std::move(*item));
    } else if (const auto* open = std::get_if<Open>(&message)) {
      worker_.open(open->sequence, open->spec);
    } else if (const auto* close = std::get_if<Close>(&message)) {
      worker_.close(close->sequence);
    } else if (const auto* call = std::get_if<Call>(&message)) {
      (**call)(worker_);
    } else if (auto* event = std::get_if<PipelineEvent>(&message)) {
      const size_t before = finished.size();
      worker_.handle(std::move(*event), finished);
      notices_told_ += static_cast<uint64_t>(
          std::count_if(finished.begin() + static_cast<std::ptrdiff_t>(before), finished.end(),
                        [](const FinishedItem& told) { return told.result.entered; }));
    } else if (const auto* answered = std::get_if<Answered>(&message)) {
      notices_seen_answered_ = answered->notices;
    } else {
      stopping_ = true;
    }
  }

  // If there is work, the thread takes the present messages and does not wait.
  bool has_work() const { return !worker_.is_pipelined() && worker_.ready(); }

  void run() {
    std::vector<Message> messages;
    std::vector<FinishedItem> finished;
    while (true) {
      const auto now = std::chrono::steady_clock::now();
      const auto wait = worker_.waits_for_masks() ? kMaskLooks : std::chrono::hours(1);
      inbox_.take(has_work() ? now : now + wait, messages);
      for (Message& message : messages) handle(message, finished);
      messages.clear();
      if (stopping_) {
        if (worker_.steps_under_way() == 0) return;
        continue;  // the tasks of its Steps are still running
      }
      if (worker_.is_pipelined()) {
        // A strategy that gets an entry notice submits more rows for the next Step, which waits for
        // them.
        const bool all_answered = notices_seen_answered_ == notices_told_;
        while (all_answered && worker_.may_issue()) worker_.issue(finished);
      } else if (worker_.ready()) {
        worker_.step(finished);
      }
      if (finished.empty()) continue;
      outbox_->add_all(finished);
      outbox_->wake();
    }
  }

  RoleWorker worker_;
  Mailbox<FinishedItem>* outbox_;
  const bool threaded_;
  // The caller's thread uses these members.
  bool has_submitted_ = false;  // since the last wake()
  uint64_t notices_taken_ = 0;
  uint64_t notices_answered_ = 0;  // the number that the role's thread knows
  // The role's thread uses these members.
  bool stopping_ = false;
  uint64_t notices_told_ = 0;
  uint64_t notices_seen_answered_ = 0;
  Mailbox<Message> inbox_;
  std::thread thread_;
};

RealExecutor::RealExecutor(RealExecutorOptions options)
    : outbox_(options.spin), draft_window_(options.draft_window) {
  for (int role_idx = 0; role_idx < kNumRoles; ++role_idx) {
    const auto role = static_cast<size_t>(role_idx);
    runners_[role] = std::move(options.runners[role]);
    if (!runners_[role]) continue;
    const auto& target = roles_[static_cast<size_t>(Role::kTarget)];
    RoleWorker* const read_worker = target == nullptr ? nullptr : target->inline_worker();
    roles_[role] = std::make_unique<RoleThread>(static_cast<Role>(role_idx), runners_[role].get(),
                                                read_worker, options, &outbox_);
  }
}

RealExecutor::~RealExecutor() {
  for (auto& role : roles_) {
    if (role) role->stop();
  }
  // A pipeline's threads may still be sending events of the last Step to the role.
  for (auto& runner : runners_) runner.reset();
}

Status RealExecutor::open(SequenceId sequence, const SequenceSpec& spec) {
  if (spec.max_tokens <= 0) {
    return Status(
        StatusCode::kInvalidArgument,
        "max_tokens: found " + std::to_string(spec.max_tokens) + "; accepted: at least 1");
  }
  if (open_.contains(sequence)) {
    return Status(StatusCode::kInvalidArgument,
                  "sequence " + std::to_string(sequence) + " is open already");
  }
  open_.insert(sequence, std::make_unique<OpenSequence>()).opening = ++openings_;
  for (auto& role : roles_) {
    if (role) role->open(sequence, spec);
  }
  return {};
}

void RealExecutor::submit(WorkItem item) {
  OpenSequence* const found = open_.find(item.sequence);
  if (found == nullptr) return;
  OpenSequence& sequence = *found;
  if (item.role == Role::kDraft) forget_distributions(sequence, item.edits);
  if (!item.rows.empty()) {
    ++sequence.outstanding;
    ++outstanding_;
  }
  const auto role = static_cast<size_t>(item.role);
  if (!roles_[role]) {
    if (item.rows.empty()) return;
    finished_.push_back(without_model(item, sequence.opening));
    return;
  }
  PendingItem pending;
  pending.item = std::move(item);
  if (pending.item.role == Role::kDraft && draft_window_ > 0) narrow_view(pending.item);
  pending.opening = sequence.opening;
  pending.submit_ns = steady_ns();
  if (pending.item.verify_by_rejection) attach_distributions(sequence, pending);
  roles_[role]->submit(std::move(pending));
}

void RealExecutor::narrow_view(WorkItem& item) const {
  item.chooses_for = {};
  const KvViewEntry* const window = &window_view();
  const bool is_narrow = item.view.kind == window && item.view.budget <= draft_window_;
  if (!is_narrow) item.view = {.kind = window, .budget = draft_window_};
}

// Drops the distributions of draft nodes that an edit commits or drops.
void RealExecutor::forget_distributions(OpenSequence& sequence, const std::vector<Edit>& edits) {
  if (sequence.distributions.empty()) return;
  for (const Edit& edit : edits) {
    const auto named = [&edit](const RowDistribution& row) {
      return std::find(edit.nodes.begin(), edit.nodes.end(), row.node) != edit.nodes.end();
    };
    if (edit.kind == Edit::Kind::kKeep) {
      std::erase_if(sequence.distributions,
                    [&](const RowDistribution& row) { return row.node != kNoNode && !named(row); });
      continue;
    }
    // Committing a node drops all nodes that do not descend from it.
    int32_t last_position = -1;
    for (const RowDistribution& row : sequence.distributions) {
      if (named(row)) last_position = std::max(last_position, row.position);
    }
    std::erase_if(sequence.distributions,
                  [&](const RowDistribution& row) { return row.position <= last_position; });
  }
}

void RealExecutor::remember_distributions(OpenSequence& sequence,
                                          std::vector<RowDistribution> added) {
  for (RowDistribution& row : added) {
    if (row.node == kNoNode) {
      // Only the last prefix row can have children.
      std::erase_if(sequence.distributions,
                    [](const RowDistribution& other) { return other.node == kNoNode; });
    }
    sequence.distributions.push_back(std::move(row));
  }
}

// Attaches the nodes' own distributions or, if the draft ran the token as a prefix row, that row's.
void RealExecutor::attach_distributions(const OpenSequence& sequence, PendingItem& item) const {
  item.drafts.resize(item.item.rows.size());
  for (size_t index = 0; index < item.item.rows.size(); ++index) {
    const WorkRow& row = item.item.rows[index];
    if (row.node == kNoNode) continue;
    for (const RowDistribution& known : sequence.distributions) {
      if (known.node == row.node || (known.node == kNoNode && row.position == known.position)) {
        item.drafts[index] = known.distribution;
        if (known.node == row.node) break;
      }
    }
  }
}

std::optional<WorkResult> RealExecutor::next_at_hand() {
  while (next_finished_ < finished_.size()) {
    FinishedItem& item = finished_[next_finished_++];
    if (item.result.entered) roles_[static_cast<size_t>(item.result.role)]->note_notice();
    OpenSequence* const found = open_.find(item.result.sequence);
    // Drops the result if the sequence was closed meanwhile, and perhaps opened again.
    if (found == nullptr || found->opening != item.opening) continue;
    if (item.result.waits_for_memory) {
      if (item.closings != closings_) continue;  // the role has more blocks to try with
      return std::move(item.result);
    }
    if (item.result.entered) return std::move(item.result);
    --found->outstanding;
    --outstanding_;
    if (!item.distributions.empty()) {
      remember_distributions(*found, std::move(item.distributions));
    }
    return std::move(item.result);
  }
  finished_.clear();
  next_finished_ = 0;
  return std::nullopt;
}

bool RealExecutor::run_inline() {
  const auto worker_of = [this](Role role) {
    const auto& thread = roles_[static_cast<size_t>(role)];
    return thread ? thread->inline_worker() : nullptr;
  };
  RoleWorker* target = worker_of(Role::kTarget);
  RoleWorker* draft = worker_of(Role::kDraft);
  const std::optional<Role> role = turns_.next(target, draft);
  if (!role) return false;
  if (*role == Role::kDraft) {
    draft->step(finished_, target != nullptr ? target->decoding_sequences() : 0, meanwhile_);
  } else {
    target->step(finished_, /*held_up=*/0, meanwhile_);
  }
  return true;
}

bool RealExecutor::waits_for_masks() const {
  return std::any_of(roles_.begin(), roles_.end(), [](const auto& role) {
    RoleWorker* const worker = role ? role->inline_worker() : nullptr;
    return worker != nullptr && worker->waits_for_masks();
  });
}

std::optional<WorkResult> RealExecutor::next(std::chrono::microseconds timeout) {
  // Returns ready results first, because their follow-up work belongs into the same Step.
  if (auto result = next_at_hand()) return result;
  const auto deadline = later(std::chrono::steady_clock::now(), timeout);
  const auto wake_threads = [this] {
    bool any = false;
    for (const auto& role : roles_) {
      if (!role || !role->threaded()) continue;
      any = true;
      role->wake();
    }
    return any;
  };
  const bool any_threads = wake_threads();
  if (any_threads && meanwhile_) meanwhile_();
  while (true) {
    if (auto result = next_at_hand()) return result;
    wake_threads();  // also answers notices for closed sequences
    const bool ran = run_inline();
    const auto now = std::chrono::steady_clock::now();
    const bool waits = waits_for_masks();
    const auto until = waits ? std::min(deadline, now + kMaskLooks) : deadline;
    if (any_threads && outstanding_ > 0) {
      // After an inline Step, takes the threads' results without waiting; otherwise waits for them.
      outbox_.take(ran ? now : until, finished_);
    } else if (!ran && waits) {
      std::this_thread::sleep_until(until);
    } else if (!ran) {
      return std::nullopt;
    }
    // Checks the timeout also after a Step, since the caller may have cancellations to handle.
    if (std::chrono::steady_clock::now() >= deadline) return next_at_hand();
  }
}

void RealExecutor::close(SequenceId sequence) {
  const std::unique_ptr<OpenSequence> closed = open_.take(sequence);
  if (closed == nullptr) return;
  outstanding_ -= closed->outstanding;
  ++closings_;
  for (auto& role : roles_) {
    if (role) role->close(sequence);
  }
}

KvUsage RealExecutor::kv_usage(Role role) const {
  const auto& thread = roles_[static_cast<size_t>(role)];
  return thread ? thread->usage() : KvUsage{};
}

Result<StepRecord> RealExecutor::profile(Role role, int32_t rows, int32_t context_tokens,
                                         int32_t sequences) {
  RoleThread* thread = roles_[static_cast<size_t>(role)].get();
  if (thread == nullptr) {
    return Status(StatusCode::kNotFound,
                  std::string("profile: there is no ") + role_name(role) + " model");
  }
  if (!open_.empty()) {
    return Status(StatusCode::kInvalidArgument, "profile: found " + std::to_string(open_.size()) +
                                                    " open sequences; accepted: none");
  }
  if (rows < 1 || context_tokens < 0 || sequences < 1) {
    return Status(StatusCode::kInvalidArgument,
                  "profile: found " + std::to_string(sequences) + " sequences of " +
                      std::to_string(rows) + " rows, and a context of " +
                      std::to_string(context_tokens) +
                      " tokens; accepted: at least 1 sequence, 1 row and 0 tokens");
  }
  Result<StepRecord> record{StepRecord{}};
  thread->call(
      [&](RoleWorker& worker) { record = worker.measure(rows, context_tokens, sequences); });
  return record;
}

}  // namespace forerun
