// The processes of one launch: rank 0 coordinates (text, bookkeeping, the draft), ranks 1 to n are
// the stages of the target, one each, in order.
//
// They begin with a greeting: the coordinator sends its secret and a number for the launch, which
// every later message carries, to all; who knows another secret does not answer. Then whatever must
// be the same everywhere is compared (agree()), and the start goes on in rounds in which every
// stage reports and the coordinator gives notice to all.
//
// Whoever waits, waits until a deadline or until somebody is lost: no call blocks for good.
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
#include "hosts/bytes.h"
#include "hosts/messenger.h"
#include "hosts/transport.h"

namespace forerun {

// Which of a launch's processes on its machine a process is, and how many they are.
struct LocalPlace {
  int32_t rank = 0;
  int32_t ranks = 1;
};

struct HostsOptions {
  std::string host;    // of this process, for messages
  std::string secret;  // that all processes know; empty: there is none
  LocalPlace place = {};
  // Until all have greeted each other: processes start at different times.
  std::chrono::milliseconds timeout{60000};
  MessengerOptions messenger = {};
  // How long a Step may always take at a stage (step_deadlines.h adds to it).
  std::chrono::milliseconds longest_step{60000};
};

// What must be the same in all processes: pairs of name and value, compared in this order.
using HostFacts = std::vector<std::pair<std::string, std::string>>;

class Hosts {
 public:
  // Greets the others. kInvalidArgument where there is but one process; kDeadlineExceeded, naming
  // the rank, where one has not answered in time.
  static Result<std::unique_ptr<Hosts>> join(std::unique_ptr<Transport> transport,
                                             const HostsOptions& options);
  // Lets the others know that it is over, where it has not ended otherwise.
  ~Hosts();

  int32_t rank() const { return messenger_.rank(); }
  int32_t num_stages() const { return messenger_.num_ranks() - 1; }
  bool is_coordinator() const { return rank() == 0; }
  const LocalPlace& place() const { return options_.place; }
  std::chrono::milliseconds longest_step() const { return options_.longest_step; }
  // Whether the coordinator has ended the launch, or does so within `timeout`: then this stage
  // need not say why it leaves. Not while somebody listens to the messenger.
  bool is_dismissed(std::chrono::milliseconds timeout);
  bool has_lost_anybody() const { return messenger_.has_lost_anybody(); }
  // Why the launch cannot go on, told by whoever has noticed first; ok: it can. Any thread.
  Status failure() const;
  // The rank that the failure began with; nothing where there is no failure.
  std::optional<int32_t> failed_rank() const;
  void note_failure(const Status& why, int32_t rank);
  // "rank 2 (stage 2 of 3, host b)"
  std::string describe(int32_t rank) const;
  Messenger& messenger() { return messenger_; }

  // Compares what every process says of itself; where one differs from the coordinator every rank
  // fails, the message names the fact, both ranks and both values.
  // `facts` not ok: this rank cannot go on, which all are told.
  Status agree(const Result<HostFacts>& facts);
  // A round: every stage's report goes to the coordinator's `decide`, and what that says to all,
  // who return it. A failure of anybody's ends the launch.
  Result<Bytes> settle(const Result<Bytes>& own_report,
                       const std::function<Result<Bytes>(const std::vector<Bytes>&)>& decide);
  // Coordinator: the report of every stage, in order. Of one that has failed, or is lost, the
  // failure with its name.
  Result<std::vector<Bytes>> gather();
  // A stage: its report.
  void report(const Result<Bytes>& own_report);
  // Coordinator: the same to all stages; a failure ends their launch.
  void give_notice(const Result<Bytes>& notice);
  // A stage: what the coordinator gives notice of, or why there is none.
  Result<Bytes> take_notice();
  // Reads the rank that a failure began with, which follows the status in a frame of kLost.
  int32_t read_lost_rank(ByteReader& from) const;
  // Ends the launch: `why` goes to all who listen. Once.
  void end(const Status& why);
  // The coordinator's end has come, to whoever listens to the messenger: nobody is told any more.
  void note_end() { ended_ = dismissed_ = true; }

 private:
  Hosts(std::unique_ptr<Transport> transport, const HostsOptions& options);
  Status greet();
  Status answer();
  // The next frame, of any rank.
  Result<Incoming> next();

  const HostsOptions options_;
  std::vector<std::string> names_;  // of hosts, by rank; the coordinator's
  bool ended_ = false;
  bool dismissed_ = false;
  mutable std::mutex failing_;
  Status failure_;
  std::optional<int32_t> failed_rank_;
  Messenger messenger_;
};

}  // namespace forerun
