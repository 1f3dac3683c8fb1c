#include "supervisor/host_questions.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kQuestionGrace{300};  // the commands have nothing to clean up

}  // namespace

HostQuestions::HostQuestions(const SupervisorOptions& options,
                             const std::vector<std::string>& hosts)
    : deadline_(Clock::now() + options.answer_timeout) {
  for (const std::string& host : hosts) {
    Question& question = questions_.emplace_back();
    question.host = host;
    auto folder = LaunchFolder::make();
    if (!folder.ok()) continue;
    question.folder.emplace(std::move(*folder));
    auto process = LaunchProcess::start(options.ask(host, question.folder->name()));
    if (process.ok()) question.process = std::move(*process);
  }
}

HostQuestions::~HostQuestions() {
  for (Question& question : questions_) {
    if (question.process != nullptr) question.process->end(milliseconds(0), kQuestionGrace);
  }
}

bool HostQuestions::is_over() {
  const bool is_late = Clock::now() > deadline_;
  bool all_over = true;
  for (Question& question : questions_) {
    if (question.process == nullptr) continue;
    std::vector<Bytes> frames;  // such a command sends none
    std::vector<std::string> lines;
    (void)question.process->output().read(frames, lines);
    (void)question.process->errors().read(lines);
    for (const std::string& line : lines) {
      log_line(LogLevel::kDebug, "host " + question.host + ": " + line);
    }
    const std::optional<int> code = question.process->exit_code();
    if (!code && !is_late) {
      all_over = false;
      continue;
    }
    question.has_answered = code == 0;
    question.process->end(milliseconds(0), kQuestionGrace);
    question.process.reset();
  }
  return all_over;
}

std::vector<std::string> HostQuestions::silent() const {
  std::vector<std::string> silent;
  for (const Question& question : questions_) {
    if (!question.has_answered) silent.push_back(question.host);
  }
  return silent;
}

std::vector<std::string> hosts_to_ask(const std::vector<std::string>& hosts) {
  std::array<char, 256> this_host{};
  gethostname(this_host.data(), this_host.size() - 1);
  std::vector<std::string> asked;
  for (const std::string& host : hosts) {
    const bool is_here = host == "localhost" || host == this_host.data();
    if (!is_here && std::find(asked.begin(), asked.end(), host) == asked.end()) {
      asked.push_back(host);
    }
  }
  return asked;
}

std::string describe_silent(const std::vector<std::string>& hosts) {
  std::string text = hosts.size() == 1 ? "host " : "hosts ";
  for (size_t idx = 0; idx < hosts.size(); ++idx) text += (idx > 0 ? ", " : "") + hosts[idx];
  return text + (hosts.size() == 1 ? " does not answer" : " do not answer");
}

}  // namespace forerun
