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
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "forerun/status.h"
#include "hosts/bytes.h"
#include "hosts/messenger.h"
#include "hosts/transport.h"

namespace forerun {

struct HostsOptions {
  std::string host;    // of this process, for messages
  std::string secret;  // of the launch; empty: there is none
  // Until all have greeted each other: processes start at different times.
  std::chrono::milliseconds patience{60000};
  MessengerOptions messenger = {};
};

// What must be the same in all processes: name and value each, in one order.
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
  // "rank 2 (stage 2 of 3, host b)"
  std::string describe(int32_t rank) const;
  Messenger& messenger() { return messenger_; }

  // Compares what every process says of itself; where one differs from the coordinator every rank
  // fails, the message names the fact, both ranks and both values.
  Status agree(const HostFacts& facts);
  // Coordinator: the report of every stage, in order. Of one that has failed, or is lost, the
  // failure with its name.
  Result<std::vector<Bytes>> gather();
  // A stage: its report.
  void report(const Result<Bytes>& mine);
  // Coordinator: the same to all stages; a failure ends their launch.
  void give_notice(const Result<Bytes>& notice);
  // A stage: what the coordinator gives notice of, or why there is none.
  Result<Bytes> take_notice();
  // Ends the launch: `why` not ok goes to all who listen.
  void end(const Status& why);

 private:
  Hosts(std::unique_ptr<Transport> transport, const HostsOptions& options);
  Status greet();
  Status answer();
  // The next frame, of any rank.
  Result<Incoming> next();

  const HostsOptions options_;
  std::vector<std::string> names_;  // of hosts, by rank; the coordinator's
  bool ended_ = false;
  Messenger messenger_;
};

}  // namespace forerun
