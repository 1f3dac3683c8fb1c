#include "supervisor/mpirun_notices.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace forerun {
namespace {

const std::string kRule(74, '-');

// Returns the lines that are shown of a text written by a launch over these hosts.
std::vector<std::string> shown(const std::string& text,
                               std::vector<std::string> hosts = {"head", "b", "c"}) {
  MpirunNotices notices(std::move(hosts));
  std::vector<std::string> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    for (std::string& notice : notices.push(line)) all.push_back(std::move(notice));
  }
  for (std::string& notice : notices.finish()) all.push_back(std::move(notice));
  return all;
}

std::string box(const std::string& text) { return kRule + "\n" + text + kRule + "\n"; }

// The output of OpenMPI 4.1.4.
const std::string kMissing =
    box("mpirun was unable to launch the specified application as it could not access\n"
        "or execute an executable:\n\nExecutable: /opt/forerun\nNode: b\n\n"
        "while attempting to start process rank 1.\n");
const std::string kNoDaemon =
    box("ORTE was unable to reliably start one or more daemons.\nThis usually is caused by:\n\n"
        "* not finding the required libraries and/or binaries on\n  one or more nodes.\n");
const std::string kPrimary =
    box("Primary job  terminated normally, but 1 process returned\n"
        "a non-zero exit code. Per user-direction, the job has been aborted.\n");
const std::string kAbort =
    box("MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 3.\n\n"
        "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\n");

std::string exited(int code) {
  return box(
      "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n\n"
      "  Process name: [[17155,1],2]\n  Exit code:    " +
      std::to_string(code) + "\n");
}

using Lines = std::vector<std::string>;

TEST(MpirunNotices, NameAHostWithoutTheProgram) {
  EXPECT_EQ(shown(kMissing),
            Lines({"mpirun: host b: cannot run '/opt/forerun': the file does not exist there, or "
                   "must not be executed; accepted: a program at the same path on all hosts"}));
}

TEST(MpirunNotices, NameAHostThatSshDoesNotReach) {
  EXPECT_EQ(
      shown("ssh: connect to host c port 22: Connection refused\n" + kNoDaemon),
      Lines({"mpirun: host c: no process can be started there: ssh: connect to host c port 22: "
             "Connection refused; accepted: hosts that ssh reaches without a password and that "
             "have orted (Debian: openmpi-bin)"}));
  const Lines unnamed =
      shown("bash: line 1: orted: command not found\n" + kNoDaemon, {"x", "y", "x"});
  ASSERT_EQ(unnamed.size(), 1U);
  EXPECT_TRUE(
      unnamed[0].starts_with("mpirun: one of the hosts x, y: no process can be started there: "
                             "bash: line 1: orted: command not found; "))
      << unnamed[0];
  // ssh's lines are shown even if mpirun continues.
  EXPECT_EQ(shown("ssh: something\nforerun: up\n"), Lines({"forerun: up", "ssh: something"}));
}

TEST(MpirunNotices, LeaveOutWhatTheProcessesSayThemselves) {
  const std::string own = "forerun: build: rank 1 (stage 1 of 2, host b) has 'x'";
  EXPECT_EQ(shown(own + "\n" + kPrimary + kAbort + exited(1) +
                  "[head:71] 2 more processes have sent help message help-mpi-api.txt / mpi-abort\n"
                  "[head:71] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all\n"),
            Lines({own}));
  // Two processes write the same line.
  EXPECT_EQ(shown(own + "\n" + own + "\n"), Lines({own}));
}

TEST(MpirunNotices, NameARankThatSaysNothing) {
  EXPECT_EQ(shown(kPrimary + exited(127)),
            Lines({"mpirun: rank 2 (host c) has ended with exit code 127"}));
  EXPECT_EQ(shown(box("mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 "
                      "(Killed).\n")),
            Lines({"mpirun: rank 1 (host b) has ended on signal 9 (Killed)."}));
  EXPECT_EQ(shown(box("ORTE has lost communication with a remote daemon.\n\n"
                      "  HNP daemon   : [[30621,0],0] on node head\n"
                      "  Remote daemon: [[30621,0],1] on node b\n\nThis is usually due to\n")),
            Lines({"mpirun: host b: it does not answer any more"}));
}

TEST(MpirunNotices, ShortenWhatIsNotKnownAndKeepWhatIsNoBox) {
  EXPECT_EQ(shown(box("Something\n  new.\n") + "--- a line\n" + "----\n"),
            Lines({"mpirun: Something new.", "--- a line", "----"}));
  const Lines long_one = shown(box(std::string(1000, 'x') + "\n"));
  ASSERT_EQ(long_one.size(), 1U);
  EXPECT_LT(long_one[0].size(), 420U);
  // A box without an end.
  EXPECT_EQ(shown(kRule + "\nhalf\n"), Lines({"mpirun: half"}));
  std::string many = kRule + "\n";
  for (int idx = 0; idx < 300; ++idx) many += "line " + std::to_string(idx) + "\n";
  EXPECT_EQ(shown(many).size(), 300U);
  EXPECT_TRUE(shown("").empty());
  EXPECT_TRUE(shown(box("")).size() <= 1U);
}

}  // namespace
}  // namespace forerun
