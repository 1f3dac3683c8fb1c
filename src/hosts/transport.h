// Carries messages between the processes of a launch: over MPI (mpi_transport.h), or, for tests,
// within one process (local_transport.h). Relays before it slow links down (slow_links.h) or cut
// them (cut_links.h).
//
// No call waits for other processes. Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "forerun/status.h"
#include "wire/bytes.h"

namespace forerun {

// A message that has been received as a whole.
struct Received {
  int32_t from = 0;  // rank
  Bytes message;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t num_ranks() const = 0;
  // Starts sending a message to another rank. Messages to one rank arrive in the order of the
  // calls.
  virtual Status send(int32_t to, Bytes message) = 0;
  // Returns the next received message, if there is one; messages of one rank arrive in order. Also
  // makes progress on messages in flight, so it must be called regularly even if no message is
  // expected.
  virtual Result<std::optional<Received>> poll() = 0;
  // Returns whether all messages have left.
  virtual bool has_sent_all() const = 0;
};

}  // namespace forerun
