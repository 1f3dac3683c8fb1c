// The machine, commit and date of a measurement.
#pragma once

#include <string>

namespace forerun::bench {

struct MachineFacts {
  std::string processor;  // model name as reported by the OS kernel
  int cores = 0;          // number that this process may use
  std::string date;       // UTC, ISO 8601
  std::string commit;     // commit of the working directory, "unknown" outside a checkout
};

MachineFacts machine_facts();

}  // namespace forerun::bench
