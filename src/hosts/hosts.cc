#include "hosts/hosts.h"

#include <map>
#include <random>
#include <utility>

#include "base/status_macros.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {
namespace {

using Clock = Messenger::Clock;

// Longer than a model takes to load; a process that dies meanwhile is detected by its silence.
constexpr auto kLongestRound = std::chrono::hours(24);

// Shows neither value, since both are secrets. The coordinator and the stage use the same wording.
Status another_secret(const std::string& who, const std::string& coordinator) {
  return Status(StatusCode::kInvalidArgument,
                "secret: found different ones on " + who + " and on " + coordinator +
                    "; accepted: a --secret-file with the same content on every host");
}

uint64_t draw_generation() {
  std::random_device random;
  uint64_t generation = 0;
  while (generation == 0) generation = (uint64_t{random()} << 32) | random();
  return generation;
}

}  // namespace

Hosts::Hosts(std::unique_ptr<Transport> transport, const HostsOptions& options)
    : options_(options),
      names_(static_cast<size_t>(transport->num_ranks())),
      messenger_(std::move(transport), options.messenger) {
  names_[static_cast<size_t>(rank())] = options.host;
}

Result<std::unique_ptr<Hosts>> Hosts::join(std::unique_ptr<Transport> transport,
                                           const HostsOptions& options) {
  if (transport->num_ranks() < 2) {
    return Status(StatusCode::kInvalidArgument,
                  "hosts: found 1 process; accepted: at least 2, one for the text and the "
                  "draft and one for each stage of the target");
  }
  auto hosts = std::unique_ptr<Hosts>(new Hosts(std::move(transport), options));
  const Status joined = hosts->is_coordinator() ? hosts->greet() : hosts->answer();
  if (joined.ok()) return hosts;
  hosts->end(joined);  // the other processes report the same error
  return joined;
}

Hosts::~Hosts() { end(Status(StatusCode::kCancelled, "the coordinator has left")); }

Status Hosts::failure() const {
  const std::lock_guard lock(failing_);
  return failure_;
}

std::optional<int32_t> Hosts::failed_rank() const {
  const std::lock_guard lock(failing_);
  return failed_rank_;
}

void Hosts::note_failure(const Status& why, int32_t rank) {
  const std::lock_guard lock(failing_);
  if (!failure_.ok()) return;
  failure_ = why;
  failed_rank_ = rank;
}

std::string Hosts::describe(int32_t rank) const {
  std::string text = "rank " + std::to_string(rank) + " (";
  text += rank == 0 ? "the coordinator"
                    : "stage " + std::to_string(rank) + " of " + std::to_string(num_stages());
  const std::string& host = names_[static_cast<size_t>(rank)];
  return text + (host.empty() ? "" : ", host " + host) + ")";
}

Status Hosts::greet() {
  messenger_.set_generation(draw_generation());
  for (int32_t rank = 1; rank <= num_stages(); ++rank) {
    Bytes greeting = messenger_.begin(FrameKind::kGreeting);
    append_value(greeting, Greeting{options_.secret, options_.host});
    messenger_.send(rank, std::move(greeting));
  }
  const Clock::time_point deadline = Clock::now() + options_.timeout;
  std::vector<bool> answered(static_cast<size_t>(num_stages()) + 1, false);
  for (int32_t left = num_stages(); left > 0;) {
    auto incoming = messenger_.receive(deadline);
    if (!incoming.ok()) {
      int32_t silent = 1;
      while (answered[static_cast<size_t>(silent)]) ++silent;
      return Status(StatusCode::kDeadlineExceeded, describe(silent) + " has not answered within " +
                                                       std::to_string(options_.timeout.count()) +
                                                       " ms");
    }
    const auto from_rank = static_cast<size_t>(incoming->from);
    if (!incoming->lost.ok()) return incoming->lost.with_context(describe(incoming->from));
    if (incoming->kind != FrameKind::kReport || answered[from_rank]) continue;
    GreetingAnswer answer;
    FORERUN_RETURN_IF_ERROR(from_bytes("answer", incoming->payload(), answer));
    names_[from_rank] = answer.own.host;
    if (answer.refuses || answer.own.secret != options_.secret) {
      return another_secret(describe(incoming->from), describe(0));
    }
    answered[from_rank] = true;
    messenger_.watch(incoming->from);
    --left;
  }
  give_notice(Bytes());
  return {};
}

Status Hosts::answer() {
  const Clock::time_point deadline = Clock::now() + options_.timeout;
  while (true) {
    auto incoming = messenger_.receive(deadline);
    if (!incoming.ok()) {
      return Status(StatusCode::kDeadlineExceeded,
                    "the coordinator (rank 0) has sent no greeting within " +
                        std::to_string(options_.timeout.count()) + " ms");
    }
    if (!incoming->lost.ok()) return incoming->lost.with_context(describe(incoming->from));
    if (incoming->kind != FrameKind::kGreeting || incoming->from != 0) continue;
    const auto header = read_frame(incoming->frame, kLastFrameKind);
    Greeting greeting;
    FORERUN_RETURN_IF_ERROR(from_bytes("greeting", incoming->payload(), greeting));
    names_[0] = greeting.host;
    messenger_.set_generation(header->generation);
    messenger_.watch(0);
    // A stage with a different secret refuses without sending its own.
    const bool refuses = greeting.secret != options_.secret;
    Bytes frame = messenger_.begin(FrameKind::kReport);
    const Greeting own{refuses ? "" : options_.secret, options_.host};
    append_value(frame, GreetingAnswer{refuses, own});
    messenger_.send(0, std::move(frame));
    if (refuses) return another_secret(describe(rank()), describe(0));
    return take_notice().status();  // all have answered
  }
}

Result<Incoming> Hosts::next() {
  // Nothing more comes then.
  FORERUN_RETURN_IF_ERROR(failure());
  if (dismissed_) return dismissal_;
  FORERUN_ASSIGN_OR_RETURN(Incoming incoming, messenger_.receive(Clock::now() + kLongestRound));
  if (!incoming.lost.ok()) {
    note_failure(incoming.lost.with_context(describe(incoming.from)), incoming.from);
    return failure();
  }
  if (incoming.kind == FrameKind::kLost || incoming.kind == FrameKind::kEnd) {
    const bool is_lost = incoming.kind == FrameKind::kLost;
    Loss loss;
    FORERUN_RETURN_IF_ERROR(is_lost ? read_loss(incoming, loss)
                                    : from_bytes("end", incoming.payload(), loss.why));
    const Status& why = loss.why;
    // A rank that cannot go on itself refuses; only a rank that has lost another one reports a
    // loss.
    if (is_lost && loss.rank != incoming.from) {
      note_failure(why.with_context(describe(incoming.from)), loss.rank);
    }
    if (incoming.kind == FrameKind::kEnd) {
      note_end();
      if (!why.ok()) dismissal_ = why;
    }
    if (why.ok()) return dismissal_;
    return incoming.kind == FrameKind::kEnd ? why : why.with_context(describe(incoming.from));
  }
  return incoming;
}

Result<std::vector<Bytes>> Hosts::gather(const Answer& answer) {
  std::vector<Bytes> reports(static_cast<size_t>(num_stages()));
  std::vector<bool> has_come(reports.size(), false);
  for (size_t left = reports.size(); left > 0;) {
    FORERUN_ASSIGN_OR_RETURN(const Incoming incoming, next());
    if (incoming.kind == FrameKind::kChunkAsk && answer) FORERUN_RETURN_IF_ERROR(answer(incoming));
    if (incoming.kind != FrameKind::kReport) continue;
    const auto stage = static_cast<size_t>(incoming.from) - 1;
    Outcome outcome;
    Status status = from_bytes("report", incoming.payload(), outcome);
    if (status.ok()) status = outcome.status;
    if (!status.ok()) return status.with_context(describe(incoming.from));
    if (has_come[stage]) {
      return Status(StatusCode::kCorrupt, describe(incoming.from) + " has reported twice");
    }
    reports[stage] = std::move(outcome.content);
    has_come[stage] = true;
    --left;
  }
  return reports;
}

namespace {

Outcome outcome_of(const Result<Bytes>& result) {
  return {result.status(), result.ok() ? *result : Bytes()};
}

}  // namespace

void Hosts::report(const Result<Bytes>& own_report) {
  Bytes frame = messenger_.begin(FrameKind::kReport);
  append_value(frame, outcome_of(own_report));
  messenger_.send(0, std::move(frame));
}

void Hosts::give_notice(const Result<Bytes>& notice) {
  if (!notice.ok()) return end(notice.status());
  for (int32_t rank = 1; rank <= num_stages(); ++rank) {
    Bytes frame = messenger_.begin(FrameKind::kNotice);
    append_value(frame, outcome_of(notice));
    messenger_.send(rank, std::move(frame));
  }
}

Result<Bytes> Hosts::take_notice() {
  while (true) {
    FORERUN_ASSIGN_OR_RETURN(const Incoming incoming, next());
    if (incoming.kind != FrameKind::kNotice || incoming.from != 0) continue;
    Outcome outcome;
    FORERUN_RETURN_IF_ERROR(from_bytes("notice", incoming.payload(), outcome));
    FORERUN_RETURN_IF_ERROR(outcome.status);
    return std::move(outcome.content);
  }
}

Status Hosts::compare_facts(const HostFacts& facts, int32_t rank,
                            const HostFacts& reported_facts) const {
  std::map<std::string, std::string> reported(reported_facts.begin(), reported_facts.end());
  const auto differs = [&](const std::string& name, const std::string& found,
                           const std::string& value) {
    return Status(StatusCode::kInvalidArgument, name + ": " + describe(rank) + " has " + found +
                                                    ", " + describe(0) + " has " + value +
                                                    "; accepted: the same in all processes");
  };
  const auto quoted = [](const std::string& value) { return "'" + value + "'"; };
  for (const auto& [name, value] : facts) {
    const auto found = reported.find(name);
    if (found == reported.end()) return differs(name, "none", quoted(value));
    if (found->second != value) return differs(name, quoted(found->second), quoted(value));
    reported.erase(found);
  }
  if (reported.empty()) return {};
  const auto& [name, value] = *reported.begin();
  return differs(name, quoted(value), "none");
}

Result<Bytes> Hosts::settle(const Result<Bytes>& own_report,
                            const std::function<Result<Bytes>(const std::vector<Bytes>&)>& decide,
                            const Answer& answer) {
  if (!is_coordinator()) {
    report(own_report);
    return take_notice();
  }
  auto decided = [&]() -> Result<Bytes> {
    FORERUN_RETURN_IF_ERROR(own_report.status());
    FORERUN_ASSIGN_OR_RETURN(const std::vector<Bytes> reports, gather(answer));
    return decide(reports);
  }();
  give_notice(decided);
  return decided;
}

Status Hosts::agree(const Result<HostFacts>& facts) {
  const Result<Bytes> own_facts = facts.ok() ? Result<Bytes>(to_bytes(*facts)) : facts.status();
  return settle(own_facts,
                [&](const std::vector<Bytes>& reports) -> Result<Bytes> {
                  for (int32_t rank = 1; rank <= num_stages(); ++rank) {
                    HostFacts reported;
                    FORERUN_RETURN_IF_ERROR(
                        from_bytes("facts", reports[static_cast<size_t>(rank) - 1], reported));
                    FORERUN_RETURN_IF_ERROR(compare_facts(*facts, rank, reported));
                  }
                  return Bytes();
                })
      .status();
}

bool Hosts::is_dismissed(std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (!dismissed_) {
    const auto incoming = messenger_.receive(deadline);
    if (!incoming.ok()) break;
    if (incoming->lost.ok() && incoming->kind == FrameKind::kEnd) note_end();
  }
  return dismissed_;
}

void Hosts::end(const Status& why) {
  if (std::exchange(ended_, true)) return;
  const FrameKind kind = is_coordinator() ? FrameKind::kEnd : FrameKind::kLost;
  for (int32_t rank = is_coordinator() ? 1 : 0; rank <= (is_coordinator() ? num_stages() : 0);
       ++rank) {
    Bytes frame = messenger_.begin(kind);
    WireWriter to(&frame);
    if (is_coordinator()) {
      to("end", why);
    } else {
      to("loss", Loss{why, failed_rank().value_or(this->rank())});
    }
    messenger_.send(rank, std::move(frame));
  }
}

Status Hosts::read_loss(const Incoming& incoming, Loss& loss) const {
  WireReader from(incoming.payload());
  from("loss", loss);
  if (loss.rank < 0 || loss.rank > num_stages()) {
    from.fail("rank", "found " + std::to_string(loss.rank) + "; accepted: 0 to " +
                          std::to_string(num_stages()));
  }
  return from.finish();
}

}  // namespace forerun
