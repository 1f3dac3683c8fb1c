// MaskThreads: makes masks of tokens (grammar/token_masks.h) beside the Steps, for all requests.
//
// Threads share their time between requests by the steps that they have spent for each, not by the
// work that each has queued: who asks for little comes before who has had much. Work is given up at
// a bound and begun again, behind others, with a larger one; one thread takes no work with a larger
// bound than the first. So what is cheap waits for a few milliseconds of what is expensive at most.
//
// They run at a lower priority than the threads that run Steps: on a machine without idle
// processors they get a tenth of the time of one of these.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace forerun {

// Any thread.
class MaskThreads {
 public:
  // At most so many steps; adds those taken to `steps`. Whether it is done; else it is called again
  // with a larger bound, in the end with UINT64_MAX.
  using Work = std::function<bool(uint64_t max_steps, uint64_t& steps)>;
  // A request's. Its work is done in the order in which it came, one piece at a time.
  class Account;

  static constexpr uint64_t kFirstBound = 500'000;  // steps of some 10 ns
  static constexpr int kNiceness = 10;              // above that of the thread that makes them

  // At least two.
  explicit MaskThreads(int threads = 2);
  // Ends what is under way; the rest is dropped. Work may hold the last reference to the object:
  // then one of its threads comes here.
  ~MaskThreads();

  std::shared_ptr<Account> new_account();
  void add(const std::shared_ptr<Account>& account, Work work);

 private:
  struct Queue;

  const std::shared_ptr<Queue> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace forerun
