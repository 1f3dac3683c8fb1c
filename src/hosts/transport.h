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
#include "hosts/bytes.h"

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
  // Puts a message on its way to another rank, behind those before it.
  virtual Status send(int32_t to, Bytes message) = 0;
  // The next message that has come, those of one rank in order; nothing: none has. Moves on what is
  // under way, so it is to be called now and then also by who expects nothing.
  virtual Result<std::optional<Received>> poll() = 0;
  // Whether all that was sent has left.
  virtual bool has_sent_all() const = 0;
};

}  // namespace forerun
