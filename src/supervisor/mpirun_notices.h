// Rewrites a launch's standard error: each box of mpirun (several lines between two rules) becomes
// one line that names the host, or no line if the processes themselves report more.
//
// Thread rules: one thread at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace forerun {

class MpirunNotices {
 public:
  // `hosts`: the host of every process of the launch, by rank.
  explicit MpirunNotices(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  // Takes the next line; returns the lines to show now, in order.
  std::vector<std::string> push(std::string line);
  // Ends the input; returns the lines that were held back.
  std::vector<std::string> finish();

 private:
  void take_box(std::vector<std::string>& shown);
  void show(std::string line, std::vector<std::string>& shown);
  void release(std::vector<std::string>& shown);
  std::string name_of(int rank) const;

  const std::vector<std::string> hosts_;
  bool in_box_ = false;
  std::vector<std::string> box_;   // lines of the unfinished box
  std::vector<std::string> held_;  // ssh's lines, kept until mpirun's box about that host
  std::string last_;               // the last line shown; several processes may write the same line
};

}  // namespace forerun
