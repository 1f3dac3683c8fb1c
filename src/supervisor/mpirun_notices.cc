#include "supervisor/mpirun_notices.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace forerun {
namespace {

constexpr size_t kShortestRule = 40;
constexpr size_t kMaxBoxLines = 100;  // longer than any box of mpirun
constexpr size_t kMaxHeld = 16;
constexpr size_t kLongestUnknown = 400;

bool is_rule(std::string_view line) {
  return line.size() >= kShortestRule && line.find_first_not_of("- ") == std::string_view::npos;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns whether the line is from ssh, or its shell, and says that mpirun cannot start anything on
// a host.
bool is_of_ssh(std::string_view line) {
  return line.starts_with("ssh: ") || has(line, "Permission denied (") ||
         has(line, "Host key verification failed") || has(line, "orted: ") ||
         line.starts_with("kex_exchange_identification") || has(line, "Connection closed by ");
}

// Returns whether the line only counts further messages of mpirun, or says how to see them.
bool is_of_counting(std::string_view line) {
  return line.starts_with('[') &&
         (has(line, "sent help message help-") || has(line, "orte_base_help_aggregate"));
}

// Returns the text after `name`; empty if `name` is not in it.
std::string_view behind(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + name.size());
}

// Returns the word after `name`, up to a blank, a comma or the end.
std::string value_of(std::string_view text, std::string_view name) {
  text = behind(text, name);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return std::string(text.substr(0, text.find_first_of(" ,\n")));
}

int number_of(std::string_view text) {
  int number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string joined(const std::vector<std::string>& lines, const char* between) {
  std::string text;
  for (const std::string& line : lines) {
    const size_t first = std::min(line.find_first_not_of(" \t"), line.size());
    if (first == line.size()) continue;
    text += (text.empty() ? "" : between) + line.substr(first);
  }
  return text;
}

}  // namespace

std::string MpirunNotices::name_of(int rank) const {
  const bool is_known = rank >= 0 && static_cast<size_t>(rank) < hosts_.size();
  return "rank " + std::to_string(rank) +
         (is_known ? " (host " + hosts_[static_cast<size_t>(rank)] + ")" : "");
}

void MpirunNotices::show(std::string line, std::vector<std::string>& shown) {
  if (line == last_) return;
  last_ = line;
  shown.push_back(std::move(line));
}

void MpirunNotices::release(std::vector<std::string>& shown) {
  for (std::string& line : held_) show(std::move(line), shown);
  held_.clear();
}

std::vector<std::string> MpirunNotices::push(std::string line) {
  std::vector<std::string> shown;
  if (is_rule(line)) {
    if (in_box_) take_box(shown);
    in_box_ = !in_box_;
    box_.clear();
  } else if (in_box_) {
    box_.push_back(std::move(line));
    if (box_.size() < kMaxBoxLines) return shown;
    for (std::string& boxed : box_) show(std::move(boxed), shown);  // these lines were not a box
    box_.clear();
    in_box_ = false;
  } else if (is_of_ssh(line)) {
    held_.push_back(std::move(line));
    if (held_.size() > kMaxHeld) release(shown);
  } else if (!is_of_counting(line)) {
    show(std::move(line), shown);
  }
  return shown;
}

std::vector<std::string> MpirunNotices::finish() {
  std::vector<std::string> shown;
  release(shown);
  if (in_box_ && !box_.empty()) take_box(shown);
  box_.clear();
  in_box_ = false;
  return shown;
}

void MpirunNotices::take_box(std::vector<std::string>& shown) {
  const std::string text = joined(box_, "\n");
  if (has(text, "could not access\nor execute an executable") ||
      has(text, "unable to find the specified executable file") ||
      has(text, "could not find an executable")) {
    return show("mpirun: host " + value_of(text, "Node:") + ": cannot run '" +
                    value_of(text, "Executable:") +
                    "': the file does not exist there, or must not be executed; accepted: a "
                    "program at the same path "
                    "on all hosts",
                shown);
  }
  if (has(text, "unable to reliably start one or more daemons")) {
    std::string named;
    for (const std::string& line : held_) {
      for (const std::string& host : hosts_) {
        if (named.empty() && has(line, host)) named = host;
      }
    }
    std::vector<std::string> others(hosts_);
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    const std::string why = joined(held_, "; ");
    held_.clear();
    return show(
        "mpirun: " +
            (named.empty() ? "one of the hosts " + joined(others, ", ") : "host " + named) +
            ": no process can be started there" + (why.empty() ? "" : ": " + why) +
            "; accepted: hosts that ssh reaches without a password and that have orted (Debian: "
            "openmpi-bin)",
        shown);
  }
  if (has(text, "lost communication with a remote daemon")) {
    return show("mpirun: host " + value_of(behind(text, "Remote daemon:"), "on node ") +
                    ": it does not answer any more",
                shown);
  }
  if (has(text, "mpirun noticed that process rank")) {
    return show("mpirun: " + name_of(number_of(value_of(text, "process rank"))) +
                    " has ended on signal " + std::string(behind(text, "signal ")),
                shown);
  }
  if (has(text, "Exit code:")) {
    // A Forerun process that exits with 1 has reported the reason itself.
    const std::string code = value_of(text, "Exit code:");
    if (code == "1") return;
    const int rank = number_of(behind(behind(text, "Process name:"), "],"));
    return show("mpirun: " + name_of(rank) + " has ended with exit code " + code, shown);
  }
  for (const char* const known :
       {"MPI_ABORT was invoked on rank", "Per user-direction, the job has been aborted",
        "exiting improperly", "regular expression of the node names"}) {
    if (has(text, known)) return;
  }
  std::string line = "mpirun: " + joined(box_, " ");
  if (line.size() > kLongestUnknown) line = line.substr(0, kLongestUnknown) + " ...";
  show(std::move(line), shown);
}

}  // namespace forerun
