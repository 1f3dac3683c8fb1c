// What a launch writes to standard error, without mpirun's boxes: a box of several lines between
// two rules becomes one line that names the host, or none where the processes themselves say more.
//
// Thread rules: one thread at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace forerun {

class MpirunNotices {
 public:
  // `hosts`: of every process of the launch by rank.
  explicit MpirunNotices(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  // The next line; gives those that are to be shown now, in order.
  std::vector<std::string> push(std::string line);
  // Nothing comes any more; gives what has been held back.
  std::vector<std::string> finish();

 private:
  void take_box(std::vector<std::string>& shown);
  void show(std::string line, std::vector<std::string>& shown);
  void release(std::vector<std::string>& shown);
  std::string name_of(int rank) const;

  const std::vector<std::string> hosts_;
  bool in_box_ = false;
  std::vector<std::string> box_;   // lines of the box that has not ended
  std::vector<std::string> held_;  // of ssh, which mpirun's box on a host belongs to
  std::string last_;               // shown: processes may say the same side by side
};

}  // namespace forerun
