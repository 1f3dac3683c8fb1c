// The resources that a process uses, from Linux's /proc.
#pragma once

#include <sys/types.h>

#include <string>

namespace forerun::bench {

struct CpuTime {
  double all_s = 0.0;
  double thread_s = 0.0;  // of the threads with the given name
};

// Returns the processor time of all threads that exist now, and of those named `thread_name`. Zero
// if there is no such process.
CpuTime cpu_time_of(pid_t process, const std::string& thread_name);

// Returns the resident memory, in MiB; 0 if there is no such process.
double resident_mib_of(pid_t process);

// Returns the number of processes that run or wait for a processor, averaged over the last minute.
double load_average();

}  // namespace forerun::bench
