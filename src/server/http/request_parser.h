// Parses the bytes of a connection into requests, one after the other: the head, then the body. It
// uses no socket and no clock; the verdict depends only on the bytes, not on how they were split.
//
// Thread rules: one thread at a time. The budget is shared with other connections' parsers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/body_budget.h"
#include "server/http/chunked_body.h"
#include "server/http/head_scanner.h"
#include "server/http/http_message.h"
#include "server/http/http_server.h"
#include "server/http/request_head.h"

namespace forerun::server {

class RequestParser {
 public:
  enum class Verdict : uint8_t {
    kMore,     // more bytes are needed
    kBlank,    // only empty lines have arrived; they were consumed
    kWhole,    // the head, or the body, is complete
    kRefused,  // fault() has the reason; the connection must be closed after the answer
  };

  // `options` must outlive the parser.
  RequestParser(const HttpOptions& options, std::shared_ptr<BodyBudget> bodies)
      : options_(options), bodies_(std::move(bodies)) {
    begin();
  }

  // Forgets the last request, to begin a new one.
  void begin();
  // `bytes`: all bytes of the request so far. Takes the head off their front once it is complete;
  // request() then has everything except the body.
  Verdict take_head(std::string_view& bytes);
  // Called once, after the head. Returns kWhole if there is no body, kRefused if the memory for
  // bodies has no room for it, else kMore.
  Verdict begin_body();
  // Takes the received part of the body off the front of `bytes`. After kWhole the remaining bytes
  // belong to the next request.
  Verdict take_body(std::string_view& bytes);

  // Returns whether any bytes other than whole empty lines have arrived.
  bool has_begun() const { return scanner_.has_begun(); }
  const HeadFault& fault() const { return fault_; }
  // Returns the known part of the request; that of a new one until its head is complete.
  const HttpRequest& request() const { return request_; }
  // Returns whether the client wants the connection kept open, by its head.
  bool keeps_alive() const { return keeps_alive_; }
  // Returns whether the client waits for an interim answer before it sends the body.
  bool expects_continue() const;
  // Returns the whole request. request() keeps the head.
  HttpRequest take_request();

 private:
  Verdict refuse(int status, std::string message);
  Verdict refuse_body();
  Verdict refuse_too_large();
  Verdict take_chunks(std::string_view& bytes);

  const HttpOptions& options_;
  const std::shared_ptr<BodyBudget> bodies_;
  HeadScanner scanner_;
  HttpRequest request_;
  HeadFault fault_;
  bool keeps_alive_ = true;
  std::optional<ChunkedBody> chunks_;
  uint64_t body_left_ = 0;  // remaining bytes of a body without chunks
  std::shared_ptr<BodyMemory> body_memory_;
};

}  // namespace forerun::server
