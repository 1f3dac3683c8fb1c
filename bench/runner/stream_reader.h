// Reads the events of many requests on one thread and says when each arrived.
//
// One thread at a time. Waiting costs next to no processor time, which the engine on the same
// machine needs: it sleeps on the stream whose turn it is, the one that has been silent longest of
// those that decode (they advance together, Step by Step), and looks at all others every
// kLookEvery. So an event of a stream out of turn, a first token say, is seen at most that late.
#pragma once

#include <chrono>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "forerun/engine.h"

namespace forerun::bench {

// The clock of everything that a load measures; seconds since some moment.
double now_s();

struct ReadEvent {
  size_t request = 0;
  double s = 0.0;  // when it was read
  Event event;
};

class StreamReader {
 public:
  static constexpr std::chrono::milliseconds kLookEvery{2};
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // `request` names the stream's events; no two that are read at the same time may share it.
  void add(size_t request, std::shared_ptr<RequestStream> stream);
  // Waits for any stream's next event, until now_s() reaches `until_s`. Nothing: it is that late,
  // or no stream is left and `until_s` is kNever.
  std::optional<ReadEvent> next(double until_s);
  // Asks a request to end; nothing where it has ended.
  void cancel(size_t request);
  void cancel_all();

 private:
  struct Source {
    size_t request;
    std::shared_ptr<RequestStream> stream;
    double last_event_s;  // when it was added, before the first
    bool decodes = false;
  };

  void take(Source& source, std::chrono::milliseconds timeout);
  void look_at_all();
  Source& next_in_turn();

  std::vector<Source> streams_;  // that have not ended
  std::deque<ReadEvent> read_;   // not yet returned
  double last_look_s_ = 0.0;
};

}  // namespace forerun::bench
