// The processes of one launch: rank 0 is the coordinator (text, bookkeeping, the draft), ranks 1 to
// n are the stages of the target, one each, in order.
//
// They begin with a greeting: the coordinator sends all stages its secret and a number for the
// launch, the generation, which every later message carries. A process with another secret does not
// answer. Then agree() compares the facts that must be the same everywhere, and the start continues
// in rounds: every stage sends a report, then the coordinator sends a notice to all.
//
// Every wait ends at a deadline or when a process is lost, so no call blocks forever.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "forerun/status.h"
#include "hosts/launch_frames.h"
#include "hosts/messenger.h"
#include "hosts/transport.h"
#include "wire/bytes.h"

namespace forerun {

// The index of a process among the launch's processes on its machine, and their number.
struct LocalPlace {
  int32_t rank = 0;
  int32_t ranks = 1;
};

struct HostsOptions {
  std::string host;    // name of this process's host, for messages
  std::string secret;  // shared by all processes; empty: none
  LocalPlace place = {};
  // Time until all have greeted each other; processes start at different times.
  std::chrono::milliseconds timeout{60000};
  MessengerOptions messenger = {};
  // The time that any Step may take at a stage; long Steps get more (step_deadlines.h).
  std::chrono::milliseconds longest_step{60000};
};

// Facts that must be the same in all processes: pairs of name and value, compared in this order.
using HostFacts = std::vector<std::pair<std::string, std::string>>;

class Hosts {
 public:
  // Greets the other processes. Fails with kInvalidArgument if there is only one process, and with
  // kDeadlineExceeded, naming the rank, if a process has not answered in time.
  static Result<std::unique_ptr<Hosts>> join(std::unique_ptr<Transport> transport,
                                             const HostsOptions& options);
  // Tells the other processes that the launch is over, unless it has ended already.
  ~Hosts();

  int32_t rank() const { return messenger_.rank(); }
  int32_t num_stages() const { return messenger_.num_ranks() - 1; }
  bool is_coordinator() const { return rank() == 0; }
  const LocalPlace& place() const { return options_.place; }
  std::chrono::milliseconds longest_step() const { return options_.longest_step; }
  // Returns whether the coordinator has ended the launch, or does so within `timeout`; then this
  // stage need not report why it leaves. Must not be called while the messenger has a listener.
  bool is_dismissed(std::chrono::milliseconds timeout);
  bool has_lost_anybody() const { return messenger_.has_lost_anybody(); }
  // Returns why the launch cannot go on, as reported by the process that detected it first; ok: it
  // can. May be called from any thread.
  Status failure() const;
  // Returns the rank where the failure began; nothing if there is no failure.
  std::optional<int32_t> failed_rank() const;
  void note_failure(const Status& why, int32_t rank);
  // Returns "rank 2 (stage 2 of 3, host b)".
  std::string describe(int32_t rank) const;
  Messenger& messenger() { return messenger_; }

  // Compares the facts of every process with the coordinator's. If one differs, this fails on every
  // rank; the message names the fact, both ranks and both values. If `facts` is not ok, this rank
  // cannot go on, and all ranks receive the failure.
  Status agree(const Result<HostFacts>& facts);
  // Compares the facts that rank `rank` has reported with the coordinator's, as agree() does.
  Status compare_facts(const HostFacts& facts, int32_t rank, const HostFacts& reported) const;
  // Answers a kChunkAsk that comes before the sender's report.
  using Answer = std::function<Status(const Incoming&)>;
  // Runs one round: the coordinator passes the reports of all stages to its `decide` and sends the
  // result to all ranks, which return it. A failure of any rank ends the launch. Without `answer`,
  // the coordinator drops asks.
  Result<Bytes> settle(const Result<Bytes>& own_report,
                       const std::function<Result<Bytes>(const std::vector<Bytes>&)>& decide,
                       const Answer& answer = {});
  // On the coordinator: receives the report of every stage, in order. If a stage has failed or is
  // lost, returns its failure with its name.
  Result<std::vector<Bytes>> gather(const Answer& answer = {});
  // On a stage: sends its report to the coordinator.
  void report(const Result<Bytes>& own_report);
  // On the coordinator: sends the same notice to all stages. A failure ends the launch.
  void give_notice(const Result<Bytes>& notice);
  // On a stage: receives the coordinator's notice; fails with the reason if there is none.
  Result<Bytes> take_notice();
  // Fills `loss` from a frame of kLost. Fails with kCorrupt if the frame is invalid.
  Status read_loss(const Incoming& incoming, Loss& loss) const;
  // Returns the next frame, of any rank, before the messenger has a listener. Fails where a rank is
  // lost or the launch has ended, and from then on with the same reason.
  Result<Incoming> next();
  // Ends the launch: the coordinator sends `why` to all stages (kEnd), a stage sends it to the
  // coordinator (kLost). Further calls do nothing.
  void end(const Status& why);
  // Records that the listener has received the coordinator's kEnd: from now on nothing is sent to
  // other ranks.
  void note_end() { ended_ = dismissed_ = true; }

 private:
  Hosts(std::unique_ptr<Transport> transport, const HostsOptions& options);
  Status greet();
  Status answer();

  const HostsOptions options_;
  std::vector<std::string> names_;  // names of hosts by rank; only on the coordinator
  bool ended_ = false;
  bool dismissed_ = false;
  Status dismissal_{StatusCode::kCancelled, "the coordinator has ended the launch"};
  mutable std::mutex failing_;
  Status failure_;
  std::optional<int32_t> failed_rank_;
  Messenger messenger_;
};

}  // namespace forerun
