// Makes requests of the bytes that come on a connection, one after the other: the head, then the
// body. It knows no socket and no clock; the verdict depends on the bytes, not on how they were cut
// into pieces.
//
// Threads: one at a time. The budget is shared with other connections' parsers.
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
    kBlank,    // only empty lines have come, and have been taken
    kWhole,    // the head, or the body, is there
    kRefused,  // fault() says why; the connection must be closed after the answer
  };

  // `options` must outlive the parser.
  RequestParser(const HttpOptions& options, std::shared_ptr<BodyBudget> bodies)
      : options_(options), bodies_(std::move(bodies)) {
    begin();
  }

  // Forgets the last request: what comes is a new one.
  void begin();
  // `bytes`: all that have come of the request. Takes the head off their front once it is whole;
  // request() then has all but the body.
  Verdict take_head(std::string_view& bytes);
  // Called once, after the head: kWhole where there is no body, else kMore, or kRefused where the
  // memory for bodies has no room for it.
  Verdict begin_body();
  // Takes what has come of the body off the front of `bytes`. After kWhole the bytes that are left
  // belong to the next request.
  Verdict take_body(std::string_view& bytes);

  // Whether anything but whole empty lines has come.
  bool has_begun() const { return scanner_.has_begun(); }
  const HeadFault& fault() const { return fault_; }
  // What is known of the request; as a new one's until its head is whole.
  const HttpRequest& request() const { return request_; }
  // Whether the client wants the connection kept open, by its head.
  bool keeps_alive() const { return keeps_alive_; }
  // Whether the client waits for an interim answer before it sends the body.
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
  uint64_t body_left_ = 0;  // bytes left of a body that does not come in chunks
  std::shared_ptr<BodyMemory> body_memory_;
};

}  // namespace forerun::server
