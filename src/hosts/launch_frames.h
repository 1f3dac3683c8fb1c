// The payloads of frames that start or end a launch, and their fields.
#pragma once

#include <cstdint>
#include <string>

#include "forerun/status.h"
#include "wire/bytes.h"

namespace forerun {

// The identification that a process sends before any other message.
struct Greeting {
  std::string secret;
  std::string host;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<Greeting> auto& greeting) {
  visit("secret", greeting.secret);
  visit("host", greeting.host);
}

struct GreetingAnswer {
  bool refuses = false;
  Greeting own;  // the sender's own greeting, without the secret if it refuses
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<GreetingAnswer> auto& answer) {
  visit("refusal", answer.refuses);
  visit_fields(visit, answer.own);
}

// A report or a notice: content, or the failure because of which there is none.
struct Outcome {
  Status status;
  Bytes content;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<Outcome> auto& outcome) {
  visit("status", outcome.status);
  if (outcome.status.ok()) visit("content", outcome.content);
}

// The reason why the sender cannot go on, and the rank where this began.
struct Loss {
  Status why;
  int32_t rank = 0;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<Loss> auto& loss) {
  visit("status", loss.why);
  visit("rank", loss.rank);
}

}  // namespace forerun
