// Asks hosts, all at once, whether they can take part in a launch: runs a command for each host
// (SupervisorOptions::ask) that ends with 0 where the host can. The command's output is thrown
// away.
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
  // Ends the commands that still run.
  ~HostQuestions();
  HostQuestions(const HostQuestions&) = delete;
  HostQuestions& operator=(const HostQuestions&) = delete;

  // Whether every host has answered or used up its time to answer. Does not wait.
  bool is_over();
  // The hosts whose command has not ended with 0 so far.
  std::vector<std::string> silent() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Question {
    std::string host;
    std::optional<LaunchFolder> folder;
    std::unique_ptr<LaunchProcess> process;  // null: the command has ended
    bool has_answered = false;
  };
  std::vector<Question> questions_;
  const Clock::time_point deadline_;
};

// The hosts to ask: each once, without this machine.
std::vector<std::string> hosts_to_ask(const std::vector<std::string>& hosts);
// "hosts a, b do not answer", for messages; `hosts`: at least one.
std::string describe_silent(const std::vector<std::string>& hosts);

}  // namespace forerun
