// The writing half of a connection: answers, streams, interim answers.
#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cstdio>
#include <ctime>
#include <sstream>
#include <utility>

#include "server/http/connection.h"

namespace forerun::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  const size_t length = std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return std::string(text, length);
}

// An Exchange that passes its calls to the connection on the loop's thread.
class ConnectionExchange : public Exchange {
 public:
  ConnectionExchange(std::shared_ptr<Connection> connection, uint64_t number)
      : connection_(std::move(connection)), number_(number) {}
  ~ConnectionExchange() override {
    if (begun_) return;
    HttpResponse response;
    response.status = 500;
    respond(std::move(response));
  }

  void respond(HttpResponse response) override {
    begun_ = true;
    tell([number = number_, response = std::move(response)](Connection& connection) mutable {
      connection.respond(number, std::move(response));
    });
  }
  void begin_events() override {
    begun_ = true;
    tell([number = number_](Connection& connection) { connection.begin_events(number); });
  }
  void send_event(const std::string& data, const std::string& event) override {
    tell([number = number_, data, event](Connection& connection) {
      connection.send_event(number, data, event);
    });
  }
  void end_events() override {
    tell([number = number_](Connection& connection) { connection.end_events(number); });
  }
  void when_gone(std::function<void()> on_gone) override {
    tell([number = number_, on_gone = std::move(on_gone)](Connection& connection) mutable {
      connection.when_gone(number, std::move(on_gone));
    });
  }

 private:
  template <class Message>
  void tell(Message message) {
    asio::dispatch(connection_->executor(),
                   [connection = connection_, message = std::move(message)]() mutable {
                     message(*connection);
                   });
  }

  const std::shared_ptr<Connection> connection_;
  const uint64_t number_;
  bool begun_ = false;
};

}  // namespace

bool Connection::answers(uint64_t number) const {
  return number == number_ && state_ == State::kAnswering && !answer_ended_;
}

std::shared_ptr<Exchange> Connection::exchange() {
  return std::make_shared<ConnectionExchange>(shared_from_this(), number_);
}

void Connection::fail(int status, const std::string& message) {
  answer_and_close(handlers_.failure(status, message));
}

void Connection::answer_and_close(HttpResponse response) {
  state_ = State::kAnswering;
  read_deadline_ = Clock::time_point::max();
  keep_alive_ = false;
  is_stream_ = false;
  head_sent_ = false;
  answer_ended_ = false;
  respond(++number_, std::move(response));
}

std::string Connection::head_of(const HttpResponse& response, bool is_stream) {
  keep_alive_ = keep_alive_ && !draining_;
  http::response<http::empty_body> head(static_cast<http::status>(response.status), version_);
  head.set(http::field::date, http_date());
  head.set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) head.set(name, value);
  for (const auto& [name, value] : handlers_.headers(request_)) head.set(name, value);
  if (!request_.id.empty()) head.set("X-Request-Id", request_.id);
  // A client of HTTP/1.0 knows no chunks: its stream ends with the connection.
  if (is_stream && version_ < 11) keep_alive_ = false;
  if (is_stream && version_ >= 11) head.chunked(true);
  if (!is_stream) head.content_length(response.body.size());
  head.keep_alive(keep_alive_);
  std::ostringstream text;
  text << head.base();
  return std::move(text).str();
}

void Connection::respond(uint64_t number, HttpResponse response) {
  if (!answers(number)) return;
  std::string bytes = head_of(response, /*is_stream=*/false);
  if (!head_only_) bytes += response.body;
  head_sent_ = true;
  answer_ended_ = true;
  send(std::move(bytes));
}

void Connection::begin_events(uint64_t number) {
  if (!answers(number)) return;
  is_stream_ = true;
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  head_sent_ = true;
  send(head_of(head, /*is_stream=*/true));
}

void Connection::send_event(uint64_t number, const std::string& data, const std::string& event) {
  if (!answers(number) || !is_stream_) return;
  std::string bytes;
  bytes.reserve(data.size() + event.size() + 32);
  if (!event.empty()) bytes += "event: " + event + "\n";
  bytes += "data: " + data + "\n\n";
  send_piece(bytes);
}

void Connection::send_piece(const std::string& bytes) {
  if (version_ < 11) return send(bytes);
  char size[24];
  std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
  send(size + bytes + "\r\n");
}

// RFC 9110, 15.2: a client of HTTP/1.1 must read interim answers and ignore those that it did not
// expect. In a stream of events a line that begins with a colon is a comment.
void Connection::ask_whether_there(Clock::time_point now) {
  next_ask_ = now + options_.ask_every;
  if (answer_ended_ || !writing_.empty() || !unsent_.empty()) return;
  if (is_stream_) return send_piece(":\n\n");
  if (!head_sent_ && version_ >= 11) send("HTTP/1.1 100 Continue\r\n\r\n");
}

void Connection::end_events(uint64_t number) {
  if (!answers(number) || !is_stream_) return;
  answer_ended_ = true;
  send(version_ < 11 ? "" : "0\r\n\r\n");
}

void Connection::when_gone(uint64_t number, std::function<void()> on_gone) {
  if (answers(number)) {
    on_gone_ = std::move(on_gone);
  } else if (number != number_ || state_ == State::kClosed) {
    on_gone();
  }
}

void Connection::send(std::string bytes) {
  unsent_ += bytes;
  if (static_cast<int64_t>(unsent_.size()) > options_.max_unsent_bytes && is_stream_) {
    return close();
  }
  flush();
}

void Connection::flush() {
  if (!writing_.empty()) return;
  if (unsent_.empty()) {
    if (answer_ended_ && state_ == State::kAnswering) go_on();
    return;
  }
  std::swap(writing_, unsent_);
  write_deadline_ = Clock::now() + options_.write_time;
  asio::async_write(
      socket_, asio::buffer(writing_),
      [self = shared_from_this()](const error_code& error, size_t) { self->on_written(error); });
}

void Connection::on_written(const error_code& error) {
  if (state_ == State::kClosed) return;
  write_deadline_ = Clock::time_point::max();
  if (error) return close();
  writing_.clear();
  flush();
}

}  // namespace forerun::server
