// The fields of messages by their kind, which the frame carries (wire/wire_writer.h).
#pragma once

#include "engine/load/build_fingerprint.h"
#include "supervisor/event_fields.h"
#include "supervisor/message.h"
#include "supervisor/request_fields.h"
#include "wire/bytes.h"

namespace forerun {

// Precedes the first fields with positions that another build may have changed.
template <class Visitor>
void visit_build(Visitor& visit) {
  visit.same("build", build_fingerprint(), "all processes are of one build of Forerun");
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<DownMessage> auto& message) {
  using Kind = DownMessage::Kind;
  switch (message.kind) {
    case Kind::kPing:
    case Kind::kEnd:
      return;
    case Kind::kHello:
      visit_build(visit);
      visit("options", message.options);
      visit("silence", message.silence);
      return;
    case Kind::kSubmit:
      visit("call", message.call);
      visit("id", message.id);
      visit("request", message.request);
      return;
    case Kind::kSpeculation:
      visit("call", message.call);
      visit("id", message.id);
      visit("speculation", message.speculation);
      return;
    case Kind::kPrepare:
      visit("call", message.call);
      visit("format", message.format);
      visit("quick", message.quick);
      return;
    case Kind::kCancel:
      visit("id", message.id);
      return;
  }
}

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<UpMessage> auto& message) {
  using Kind = UpMessage::Kind;
  switch (message.kind) {
    case Kind::kPing:
      return;
    case Kind::kProgress:
      visit("text", message.text);
      visit("fraction", message.fraction);
      return;
    case Kind::kReady:
      visit("info", message.info);
      return;
    case Kind::kRefused:
      visit("status", message.status);
      return;
    case Kind::kFailure:
      visit("status", message.status);
      visit("rank", message.rank);
      return;
    case Kind::kState:
      visit("state", message.state);
      return;
    case Kind::kAnswer:
      visit("call", message.call);
      visit("status", message.status);
      visit("result", message.result);
      return;
    case Kind::kEvent:
      visit("id", message.id);
      visit("event", message.event);
      return;
  }
}

}  // namespace forerun
