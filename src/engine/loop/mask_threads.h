// MaskThreads makes token masks (grammar/token_masks.h) concurrently with the Steps, for all
// requests.
//
// Threads share their time between requests by the steps spent for each, not by the work that each
// has queued: a request that has used little goes before one that has used much. Work that reaches
// a bound is abandoned and restarted later, behind other work, with a larger bound; one thread
// takes only work with the first bound. So cheap work waits for expensive work for at most one
// first bound, some milliseconds of that thread's time.
//
// The threads run at a lower priority than those of Steps: on a machine without idle processors
// they get a tenth of the time of one of these.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace forerun {

// All methods may be called from any thread.
class MaskThreads {
 public:
  // Takes at most `max_steps` steps and adds those taken to `steps`. Returns whether the work is
  // done; if not, it is called again with a larger bound, the last time with UINT64_MAX.
  using Work = std::function<bool(uint64_t max_steps, uint64_t& steps)>;
  // One request's account. The pieces of its work run in the order in which they came, one at a
  // time.
  class Account;

  static constexpr uint64_t kFirstBound = 500'000;  // steps of about 10 ns

  // `threads`: at least two.
  explicit MaskThreads(int threads = 2);
  // Waits for the running pieces and drops the others. Work may hold the last reference to this
  // object, so the destructor may run on one of its own threads.
  ~MaskThreads();

  std::shared_ptr<Account> new_account();
  void add(const std::shared_ptr<Account>& account, Work work);

 private:
  struct Queue;

  const std::shared_ptr<Queue> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace forerun
