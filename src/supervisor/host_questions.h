// Asks several hosts at once whether they can take part in a launch: runs a command for each host
// (SupervisorOptions::ask), which exits with 0 if the host can. The command's output is dropped.
//
// Thread rules: only the thread that made the object.
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
  // `options` must outlive the object.
  HostQuestions(const SupervisorOptions& options, const std::vector<std::string>& hosts);
  // Ends the commands that still run.
  ~HostQuestions();
  HostQuestions(const HostQuestions&) = delete;
  HostQuestions& operator=(const HostQuestions&) = delete;

  // Returns whether every host has answered or used up its time to answer. Does not wait.
  bool is_over();
  // Returns the hosts with a command that has not exited with 0 so far.
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

// Returns the hosts to ask: each once, without this machine.
std::vector<std::string> hosts_to_ask(const std::vector<std::string>& hosts);
// Returns "hosts a, b do not answer" for messages; `hosts` must not be empty.
std::string describe_silent(const std::vector<std::string>& hosts);

}  // namespace forerun
