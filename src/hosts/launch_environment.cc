// Reads the facts that mpirun and Slurm pass to a process in its environment.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <system_error>

#include "hosts/mpi_transport.h"

namespace forerun {
namespace {

int32_t first_number(std::initializer_list<const char*> variables, int32_t otherwise) {
  for (const char* const variable : variables) {
    const char* const text = std::getenv(variable);
    if (text == nullptr) continue;
    int32_t value = 0;
    const char* const end = text + std::strlen(text);
    if (std::from_chars(text, end, value).ptr == end && value >= 0) return value;
  }
  return otherwise;
}

// Returns the largest number in Slurm's list of tasks per node, such as "4(x2),3". A process on a
// machine with fewer tasks then takes a smaller share of the machine than it could.
int32_t max_tasks_of_a_node() {
  const char* const list = std::getenv("SLURM_TASKS_PER_NODE");
  int32_t max_tasks = 1;
  if (list == nullptr) return max_tasks;
  const char* const end = list + std::strlen(list);
  for (const char* at = list; at < end;) {
    int32_t tasks = 0;
    if (std::from_chars(at, end, tasks).ec == std::errc()) max_tasks = std::max(max_tasks, tasks);
    at = std::find(at, end, ',');
    if (at < end) ++at;
  }
  return max_tasks;
}

}  // namespace

int32_t processes_of_launch() {
  // A Slurm step counts only if the process can join it through Slurm's PMI: a batch script also
  // runs in a step.
  const bool slurm = std::getenv("PMIX_RANK") != nullptr || std::getenv("PMI_RANK") != nullptr;
  const int32_t of_slurm = slurm ? first_number({"SLURM_STEP_NUM_TASKS", "PMI_SIZE"}, 1) : 1;
  return first_number({"OMPI_COMM_WORLD_SIZE"}, of_slurm);
}

LocalPlace place_on_machine() {
  const LocalPlace place{first_number({"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, 0),
                         first_number({"OMPI_COMM_WORLD_LOCAL_SIZE"}, max_tasks_of_a_node())};
  if (place.ranks < 1 || place.rank >= place.ranks) return {};
  return place;
}

}  // namespace forerun
