// Asks hosts, all at once, whether they can take part in a launch: runs a command for each
// (SupervisorOptions::ask) that ends with 0 where it does. What the command says is thrown away.
//
// Threads: one at a time, the one that made it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/launch_folder.h"
#include "supervisor/launch_process.h"
#include "supervisor/supervisor_options.h"

namespace forerun {

class HostQuestions {
 public:
  // `options` must outlive it.
  HostQuestions(const SupervisorOptions& options, const std::vector<std::string>& hosts);
  // Ends what still runs.
  ~HostQuestions();
  HostQuestions(const HostQuestions&) = delete;
  HostQuestions& operator=(const HostQuestions&) = delete;

  // Whether each has answered, or has had the time for it. Does not wait.
  bool is_over();
  // Those that have not answered well so far.
  std::vector<std::string> silent() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Question {
    std::string host;
    std::optional<LaunchFolder> folder;
    std::unique_ptr<LaunchProcess> process;  // null: it has ended
    bool has_answered = false;
  };
  std::vector<Question> questions_;
  const Clock::time_point deadline_;
};

// Whom there is something to ask: each once, this machine left out.
std::vector<std::string> hosts_to_ask(const std::vector<std::string>& hosts);

}  // namespace forerun
