#include "engine/loop/mask_threads.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <utility>

#include "base/background_thread.h"

namespace forerun {
namespace {

constexpr uint64_t kBoundGrowth = 8;
constexpr uint64_t kLargestBound = kBoundGrowth * MaskThreads::kFirstBound;
constexpr std::chrono::milliseconds kWaitForMemory{10};

}  // namespace

class MaskThreads::Account {
 public:
  struct Piece {
    Work work;
    uint64_t bound = kFirstBound;
  };
  std::deque<Piece> pieces;
  uint64_t served = 0;
  bool is_active = false;  // it is in `waiting`, or a thread runs a piece of its work
};

// State that the threads share. Each thread holds a reference, so the last thread frees the queue.
struct MaskThreads::Queue {
  std::mutex mutex;  // guards everything here, and all accounts
  std::condition_variable changed;
  bool stopping = false;
  std::vector<std::shared_ptr<Account>> waiting;  // accounts with work that no thread is running
  uint64_t served = 0;  // Account::served of the account chosen last; new accounts start from it

  // Removes the account to serve next from `waiting` and returns it; null if there is none for this
  // thread. The mutex must be held.
  std::shared_ptr<Account> choose(bool takes_all);
  void run(bool takes_all);
};

MaskThreads::MaskThreads(int threads) : queue_(std::make_shared<Queue>()) {
  for (int idx = 0; idx < std::max(threads, 2); ++idx) {
    threads_.emplace_back([queue = queue_, idx] { queue->run(/*takes_all=*/idx > 0); });
  }
}

MaskThreads::~MaskThreads() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->stopping = true;
  }
  queue_->changed.notify_all();
  for (std::thread& thread : threads_) {
    thread.get_id() == std::this_thread::get_id() ? thread.detach() : thread.join();
  }
}

std::shared_ptr<MaskThreads::Account> MaskThreads::new_account() {
  return std::make_shared<Account>();
}

void MaskThreads::add(const std::shared_ptr<Account>& account, Work work) {
  {
    const std::lock_guard lock(queue_->mutex);
    account->pieces.push_back({std::move(work)});
    if (account->is_active) return;
    queue_->waiting.push_back(account);
    account->is_active = true;
    account->served = std::max(account->served, queue_->served);
  }
  queue_->changed.notify_all();
}

std::shared_ptr<MaskThreads::Account> MaskThreads::Queue::choose(bool takes_all) {
  auto best = waiting.end();
  for (auto each = waiting.begin(); each != waiting.end(); ++each) {
    if (!takes_all && (*each)->pieces.front().bound > kFirstBound) continue;
    if (best == waiting.end() || (*each)->served < (*best)->served) best = each;
  }
  if (best == waiting.end()) return nullptr;
  std::shared_ptr<Account> account = std::move(*best);
  waiting.erase(best);
  served = std::max(served, account->served);
  return account;
}

void MaskThreads::Queue::run(bool takes_all) {
  run_in_background();
  std::unique_lock lock(mutex);
  while (true) {
    std::shared_ptr<Account> account;
    changed.wait(lock, [&] { return stopping || (account = choose(takes_all)) != nullptr; });
    if (stopping) break;
    Account::Piece piece = std::move(account->pieces.front());
    account->pieces.pop_front();
    lock.unlock();
    uint64_t steps = 0;
    bool done = false;
    bool has_memory = true;
    try {
      done = piece.work(piece.bound, steps);
    } catch (const std::bad_alloc&) {
      has_memory = false;
    }
    if (done) piece.work = nullptr;  // frees the work's memory while the lock is not held
    if (!has_memory) std::this_thread::sleep_for(kWaitForMemory);
    lock.lock();
    account->served += steps + 1;
    if (!done) {
      if (has_memory) {
        piece.bound = piece.bound < kLargestBound ? piece.bound * kBoundGrowth : UINT64_MAX;
      }
      account->pieces.push_front(std::move(piece));
    }
    account->is_active = !account->pieces.empty();
    if (!account->is_active) continue;
    waiting.push_back(std::move(account));
    changed.notify_all();
  }
  // Work usually holds a reference to its account, a cycle that would keep both alive forever.
  const std::vector<std::shared_ptr<Account>> dropped = std::exchange(waiting, {});
  lock.unlock();
  for (const std::shared_ptr<Account>& account : dropped) account->pieces.clear();
}

}  // namespace forerun
