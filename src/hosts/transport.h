// Carries messages between the processes of a launch: over MPI (mpi_transport.h), or, for tests,
// within one process (local_transport.h). Relays in front of it make links slow (slow_links.h) or
// cut them (cut_links.h).
//
// No call waits for anybody. Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "forerun/status.h"
#include "wire/bytes.h"

namespace forerun {

// A message that has come in whole.
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
  // Returns the next received message, if there is one; messages of one rank come in order. Also
  // makes progress on messages under way, so call it now and then even if no message is expected.
  virtual Result<std::optional<Received>> poll() = 0;
  // Whether all messages to be sent have left.
  virtual bool has_sent_all() const = 0;
};

}  // namespace forerun
