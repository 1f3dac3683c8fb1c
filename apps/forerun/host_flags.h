// The flags with which the processes of a launch join; a command with --hosts passes them on to
// each process.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cli11_names.h"
#include "forerun/status.h"
#include "hosts/hosts.h"

namespace forerun::app {

struct HostFlags {
  std::string secret_file;
  double silence_s = 10.0;
  double start_s = 60.0;
  double step_s = 60.0;
  double link_delay_ms = 0.0;
  double link_gbit = 0.0;
  std::string link_cuts;

  std::chrono::milliseconds silence() const;
  std::chrono::milliseconds start() const;
  // Returns the flags as arguments. They contain the path of the secret's file, not the secret.
  std::vector<std::string> arguments() const;
};

void add_host_flags(CLI::App& command, HostFlags& flags, const std::string& group);

// Checks, before any process is started, that the file of --secret-file may be used.
Status check_secret(const HostFlags& flags);

// Starts MPI and greets the other processes.
Result<std::unique_ptr<Hosts>> join_hosts(const HostFlags& flags);

}  // namespace forerun::app
