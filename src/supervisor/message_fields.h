// The fields of messages, by their kind (json_structs.h). For message.cc.
#pragma once

#include "supervisor/event_fields.h"
#include "supervisor/json_structs.h"
#include "supervisor/message.h"
#include "supervisor/request_fields.h"

namespace forerun {

template <class Visitor>
void visit_fields(Visitor& visit, DownMessage& message) {
  using Kind = DownMessage::Kind;
  visit("kind", message.kind);
  switch (message.kind) {
    case Kind::kPing:
    case Kind::kEnd:
      return;
    case Kind::kHello:
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
  visit.fail("kind", "one that a supervisor sends");
}

template <class Visitor>
void visit_fields(Visitor& visit, UpMessage& message) {
  using Kind = UpMessage::Kind;
  visit("kind", message.kind);
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
  visit.fail("kind", "one that a launch sends");
}

}  // namespace forerun
