// One client's connection: reads requests one after the other (RequestParser), writes their
// answers, enforces time limits, and detects when the client leaves. Used only on the loop's
// thread. For the files of this folder that use Boost.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/body_budget.h"
#include "server/http/http_server.h"
#include "server/http/request_parser.h"

namespace forerun::server {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  // `options` and `handlers` must outlive the connection. `bodies` is the budget that it shares
  // with the server's other connections. `on_closed` is called once, when the connection has ended.
  Connection(boost::asio::ip::tcp::socket socket, const HttpOptions& options,
             const HttpHandlers& handlers, std::shared_ptr<BodyBudget> bodies,
             std::function<void(Connection*)> on_closed);

  // Waits for the first request.
  void start();
  // Sends an answer without reading a request, and closes.
  void turn_away(int status, const std::string& message);
  // Ends the connection or request if it has exceeded a time limit, and detects a client that has
  // gone silently. Must be called several times a second.
  void check(Clock::time_point now);
  // Closes after the present answer; at once if there is none.
  void drain();
  // Refuses a request that has not arrived whole with 503. A request that is being answered
  // continues.
  void cut_off();
  void close();

  bool is_idle() const { return state_ == State::kIdle; }
  Clock::time_point idle_since() const { return idle_since_; }
  boost::asio::any_io_executor executor() { return socket_.get_executor(); }

  // Answers request `number`. Has no effect if it is no longer the present request.
  void respond(uint64_t number, const HttpResponse& response);
  void begin_events(uint64_t number);
  void send_event(uint64_t number, const std::string& data, const std::string& event);
  void end_events(uint64_t number);
  void when_gone(uint64_t number, std::function<void()> on_gone);

 private:
  using Verdict = RequestParser::Verdict;
  enum class State : uint8_t {
    kIdle,       // between requests
    kReading,    // a request has begun
    kAnswering,  // a handler has the request, or its answer is being written
    kClosing,    // the last answer has been written; further input is dropped
    kClosed
  };

  void be_idle();
  void wait_readable();
  void on_readable();
  void read_request();
  // Parse the received part of the head or the body, and read more if it is not complete.
  void take_head();
  void begin_body();
  void take_body();
  // Calls `then` once up to `max_bytes` more of this part of the request have arrived.
  void read_piece(size_t max_bytes, const char* part, void (Connection::*then)());
  void on_read_failed(const boost::system::error_code& error, const char* part);
  std::string_view buffered() const;
  // Drops the bytes before `left`, the end of buffered().
  void consume_to(std::string_view left);
  void handle();
  // Called when the client has shut down its sending side: it may have gone, or may be waiting for
  // its answer.
  void on_peer_done();
  void ask_whether_there(Clock::time_point now);
  // Sends the connection's last answer.
  void fail(int status, const std::string& message);
  void answer_and_close(const HttpResponse& response);
  std::string head_of(const HttpResponse& response, bool is_stream);
  void send_piece(const std::string& bytes);  // sends a piece of a stream
  void send(const std::string& bytes);
  void flush();
  void on_written(const boost::system::error_code& error);
  void finish_answer();
  void go_on();  // continues after an answer
  void linger();
  void discard_input();
  bool answers(uint64_t number) const;

  boost::asio::ip::tcp::socket socket_;
  const HttpOptions& options_;
  const HttpHandlers& handlers_;
  std::function<void(Connection*)> on_closed_;
  State state_ = State::kIdle;
  boost::beast::flat_buffer buffer_;
  RequestParser parser_;
  uint64_t number_ = 0;  // number of the present request
  bool keep_alive_ = true;
  bool draining_ = false;
  bool waiting_ = false;       // it waits for input
  bool has_input_ = false;     // the next request has begun while this one is answered
  bool timed_out_ = false;     // the time ran out while a request was read
  bool peer_done_ = false;     // the client will send no more
  bool head_sent_ = false;     // the answer's head has been sent
  bool is_stream_ = false;     // the answer is a stream
  bool answer_ended_ = false;  // the whole answer is in unsent_ or has been written
  std::function<void()> on_gone_;
  std::string writing_, unsent_;
  int64_t discarded_bytes_ = 0;
  Clock::time_point idle_since_;
  Clock::time_point body_deadline_ = Clock::time_point::max();
  Clock::time_point next_ask_;  // used once peer_done_ is set
  Clock::time_point read_deadline_ = Clock::time_point::max();
  Clock::time_point write_deadline_ = Clock::time_point::max();
};

}  // namespace forerun::server
