// The MPI functions of a build without MPI.
#include "hosts/mpi_transport.h"

namespace forerun {

Status check_mpi() {
  return Status(
      StatusCode::kUnsupported,
      "hosts: this build has no MPI; install libopenmpi-dev and openmpi-bin and configure "
      "again");
}

Result<std::unique_ptr<Transport>> start_mpi(std::chrono::milliseconds /*timeout*/) {
  return check_mpi();
}

void leave_mpi(bool /*failed*/, int /*exit_code*/) {}

}  // namespace forerun
