// One client's connection: reads requests one after the other, writes their answers, and notices
// when the client leaves. All on the loop's thread. For the files of this folder that use Boost.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/http/body_budget.h"
#include "server/http/chunked_body.h"
#include "server/http/head_scanner.h"
#include "server/http/http_server.h"
#include "server/http/request_head.h"

namespace forerun::server {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  // `options` and `handlers` must outlive the connection. `bodies`: the budget that it shares with
  // the server's other connections. `on_closed` is called once, when the connection has ended.
  Connection(boost::asio::ip::tcp::socket socket, const HttpOptions& options,
             const HttpHandlers& handlers, std::shared_ptr<BodyBudget> bodies,
             std::function<void(Connection*)> on_closed);

  // Waits for the first request.
  void start();
  // Answers without a request, and closes.
  void turn_away(int status, const std::string& message);
  // Ends the connection or request if it has exceeded a time limit, and notices a client that has
  // gone without sending anything. Must be called several times a second.
  void check(Clock::time_point now);
  // Closes after the present answer; at once where there is none.
  void drain();
  // Refuses with 503 a request that has not arrived whole. A request that is being answered goes
  // on.
  void cut_off();
  void close();

  bool is_idle() const { return state_ == State::kIdle; }
  Clock::time_point idle_since() const { return idle_since_; }
  boost::asio::any_io_executor executor() { return socket_.get_executor(); }

  // Answers request `number`. Has no effect if that is no longer the present request.
  void respond(uint64_t number, HttpResponse response);
  void begin_events(uint64_t number);
  void send_event(uint64_t number, const std::string& data, const std::string& event);
  void end_events(uint64_t number);
  void when_gone(uint64_t number, std::function<void()> on_gone);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class State : uint8_t {
    kIdle,       // between requests
    kReading,    // a request has begun
    kAnswering,  // a handler has it, or its answer is being written
    kClosing,    // the last answer has been written; what still comes is thrown away
    kClosed
  };

  void be_idle();
  void wait_readable();
  void on_readable();
  void read_request();
  void scan_head();
  void on_head_bytes(const boost::system::error_code& error, size_t count);
  void parse_head();
  void take_fields();
  void begin_body();
  // Takes what has come of the body, and reads more where that is not all.
  void read_body();
  void on_body_bytes(const boost::system::error_code& error, size_t count);
  // Returns false if the request has been refused.
  bool take_chunks();
  void refuse_malformed(const boost::system::error_code& error);
  void refuse_body();
  void handle();
  std::shared_ptr<Exchange> exchange();  // for the request that is being answered
  std::string_view buffered() const;
  // Called when the client has shut down its sending side: it may have gone, or wait for its
  // answer.
  void on_peer_done();
  void ask_whether_there(Clock::time_point now);
  // Sends the connection's last answer.
  void fail(int status, const std::string& message);
  void answer_and_close(HttpResponse response);
  std::string head_of(const HttpResponse& response, bool is_stream);
  void send_piece(const std::string& bytes);  // of a stream
  void send(std::string bytes);
  void flush();
  void on_written(const boost::system::error_code& error);
  void finish_answer();
  void go_on();  // after an answer
  void linger();
  void discard_input();
  bool answers(uint64_t number) const;

  boost::asio::ip::tcp::socket socket_;
  const HttpOptions& options_;
  const HttpHandlers& handlers_;
  std::function<void(Connection*)> on_closed_;
  State state_ = State::kIdle;
  const std::shared_ptr<BodyBudget> bodies_;
  boost::beast::flat_buffer buffer_;
  HeadScanner scanner_;
  std::optional<Parser> parser_;  // of the head
  std::optional<ChunkedBody> chunks_;
  uint64_t body_left_ = 0;  // of a body that does not come in chunks
  bool body_is_whole_ = false;
  std::shared_ptr<BodyMemory> body_memory_;
  HttpRequest request_;
  uint64_t number_ = 0;  // of the present request
  unsigned version_ = 11;
  bool keep_alive_ = true;
  bool draining_ = false;
  bool head_only_ = false;     // the request is HEAD
  bool waiting_ = false;       // for something to read
  bool has_input_ = false;     // the next request has begun while this one is answered
  bool timed_out_ = false;     // while a request was read
  bool peer_done_ = false;     // the client will send no more
  bool head_sent_ = false;     // of the answer
  bool is_stream_ = false;     // the answer is a stream
  bool answer_ended_ = false;  // all of it is in unsent_, or written
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
