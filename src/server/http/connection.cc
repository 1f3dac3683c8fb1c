#include "server/http/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <utility>

#include "server/http/connection_exchange.h"
#include "server/http/response_head.h"

namespace forerun::server {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds kLingerTime{2};
constexpr int64_t kMaxDiscardedBytes = 64 << 20;
constexpr size_t kHeadPiece = 4096;
// The largest piece of a body that one read takes.
constexpr size_t kBodyPiece = 64 << 10;
constexpr const char* kServerEnding = "the server is ending";

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, const HttpOptions& options,
                       const HttpHandlers& handlers, std::shared_ptr<BodyBudget> bodies,
                       std::function<void(Connection*)> on_closed)
    : socket_(std::move(socket)),
      options_(options),
      handlers_(handlers),
      on_closed_(std::move(on_closed)),
      parser_(options, std::move(bodies)) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
}

void Connection::start() {
  idle_since_ = Clock::now();
  be_idle();
}

void Connection::turn_away(int status, const std::string& message) { fail(status, message); }

void Connection::be_idle() {
  state_ = State::kIdle;
  read_deadline_ = idle_since_ + options_.idle_time;
  parser_.begin();
  if (buffer_.size() > 0 || std::exchange(has_input_, false)) return read_request();
  buffer_ = {};  // an idle connection keeps no unneeded memory
  wait_readable();
}

// Waits for input. There is only one wait at a time; the state at its end decides what follows.
void Connection::wait_readable() {
  if (std::exchange(waiting_, true)) return;
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const error_code& error) {
                       self->waiting_ = false;
                       if (self->state_ == State::kClosed) return;
                       if (error && error != asio::error::operation_aborted) return self->close();
                       self->on_readable();
                     });
}

void Connection::on_readable() {
  switch (state_) {
    case State::kIdle:
      return read_request();
    case State::kAnswering: {
      char byte = 0;
      const ssize_t count = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (count == 0) return on_peer_done();
      if (count < 0 && errno != EAGAIN && errno != EINTR) return close();
      if (count < 0) return wait_readable();
      has_input_ = true;
      return;
    }
    case State::kClosing:
      return discard_input();
    case State::kReading:
    case State::kClosed:
      return;
  }
}

// Called at end of stream (the client has closed its sending side): from now on check() detects
// whether the client is gone.
void Connection::on_peer_done() {
  if (std::exchange(peer_done_, true)) return;
  ask_whether_there(Clock::now());
}

void Connection::read_request() {
  state_ = State::kReading;
  read_deadline_ = Clock::now() + options_.header_time;
  buffer_.max_size(static_cast<size_t>(options_.max_header_bytes) + 2 * kBodyPiece);
  take_head();
}

std::string_view Connection::buffered() const {
  const auto bytes = buffer_.data();
  return {static_cast<const char*>(bytes.data()), bytes.size()};
}

void Connection::consume_to(std::string_view left) {
  buffer_.consume(buffer_.size() - left.size());
}

void Connection::take_head() {
  std::string_view bytes = buffered();
  const Verdict verdict = parser_.take_head(bytes);
  consume_to(bytes);
  switch (verdict) {
    case Verdict::kMore:
      return read_piece(kHeadPiece, "headers", &Connection::take_head);
    case Verdict::kBlank:
      return be_idle();
    case Verdict::kRefused:
      return fail(parser_.fault().status, parser_.fault().message);
    case Verdict::kWhole:
      break;
  }
  keep_alive_ = parser_.keeps_alive();
  if (std::optional<HttpResponse> refusal = handlers_.refuse(parser_.request())) {
    return answer_and_close(*refusal);
  }
  begin_body();
}

void Connection::begin_body() {
  switch (parser_.begin_body()) {
    case Verdict::kWhole:
      return handle();
    case Verdict::kRefused:
      return fail(parser_.fault().status, parser_.fault().message);
    case Verdict::kMore:
    case Verdict::kBlank:
      break;
  }
  if (parser_.expects_continue()) send("HTTP/1.1 100 Continue\r\n\r\n");
  body_deadline_ = Clock::now() + options_.body_time;
  take_body();
}

void Connection::take_body() {
  std::string_view bytes = buffered();
  const Verdict verdict = parser_.take_body(bytes);
  consume_to(bytes);
  if (verdict == Verdict::kRefused) return fail(parser_.fault().status, parser_.fault().message);
  if (verdict == Verdict::kWhole) return handle();
  read_deadline_ = std::min(body_deadline_, Clock::now() + options_.body_stall_time);
  read_piece(kBodyPiece, "body", &Connection::take_body);
}

void Connection::read_piece(size_t max_bytes, const char* part, void (Connection::*then)()) {
  socket_.async_read_some(buffer_.prepare(max_bytes), [self = shared_from_this(), part, then](
                                                          const error_code& error, size_t count) {
    if (self->state_ != State::kReading) return;  // it was cut off meanwhile
    if (error) return self->on_read_failed(error, part);
    self->buffer_.commit(count);
    ((*self).*then)();
  });
}

void Connection::on_read_failed(const error_code& error, const char* part) {
  if (error == asio::error::eof && parser_.has_begun()) {
    return fail(400, std::string("not an HTTP request: it ends within its ") + part);
  }
  if (timed_out_) return fail(408, "the request took longer to arrive than is allowed");
  close();  // the client has left
}

void Connection::handle() {
  state_ = State::kAnswering;
  read_deadline_ = Clock::time_point::max();
  is_stream_ = false;
  head_sent_ = false;
  answer_ended_ = false;
  ++number_;
  if (buffer_.size() == 0) wait_readable();
  handlers_.handle(parser_.take_request(),
                   std::make_shared<ConnectionExchange>(shared_from_this(), number_));
}

bool Connection::answers(uint64_t number) const {
  return number == number_ && state_ == State::kAnswering && !answer_ended_;
}

void Connection::fail(int status, const std::string& message) {
  answer_and_close(handlers_.failure(status, message));
}

void Connection::answer_and_close(const HttpResponse& response) {
  state_ = State::kAnswering;
  read_deadline_ = Clock::time_point::max();
  keep_alive_ = false;
  is_stream_ = false;
  head_sent_ = false;
  answer_ended_ = false;
  respond(++number_, response);
}

std::string Connection::head_of(const HttpResponse& response, bool is_stream) {
  const HttpRequest& request = parser_.request();
  // A client of HTTP/1.0 does not support chunks: its stream ends with the connection.
  keep_alive_ = keep_alive_ && !draining_ && !(is_stream && request.version < 11);
  return response_head(
      response, handlers_.headers(request), request,
      {.version = request.version, .is_stream = is_stream, .keep_alive = keep_alive_});
}

void Connection::respond(uint64_t number, const HttpResponse& response) {
  if (!answers(number)) return;
  std::string bytes = head_of(response, /*is_stream=*/false);
  if (parser_.request().method != "HEAD") bytes += response.body;
  head_sent_ = true;
  answer_ended_ = true;
  send(bytes);
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
  if (parser_.request().version < 11) return send(bytes);
  char size[24];
  std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
  send(size + bytes + "\r\n");
}

// Sends an interim answer or a comment. RFC 9110, 15.2: a client of HTTP/1.1 must read interim
// answers and ignore unexpected ones. In an event stream a line that begins with a colon is a
// comment.
void Connection::ask_whether_there(Clock::time_point now) {
  next_ask_ = now + options_.ask_every;
  if (answer_ended_ || !writing_.empty() || !unsent_.empty()) return;
  if (is_stream_) return send_piece(":\n\n");
  if (!head_sent_ && parser_.request().version >= 11) send("HTTP/1.1 100 Continue\r\n\r\n");
}

void Connection::end_events(uint64_t number) {
  if (!answers(number) || !is_stream_) return;
  answer_ended_ = true;
  send(parser_.request().version < 11 ? "" : "0\r\n\r\n");
}

void Connection::when_gone(uint64_t number, std::function<void()> on_gone) {
  if (answers(number)) {
    on_gone_ = std::move(on_gone);
  } else if (number != number_ || state_ == State::kClosed) {
    on_gone();
  }
}

void Connection::send(const std::string& bytes) {
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

void Connection::go_on() {
  on_gone_ = nullptr;
  answer_ended_ = false;
  idle_since_ = Clock::now();
  if (keep_alive_ && !draining_) return be_idle();
  linger();
}

// Reads until the client closes: closing with unread input would reset the connection, and the
// answer might be lost on its way.
void Connection::linger() {
  state_ = State::kClosing;
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  read_deadline_ = Clock::now() + kLingerTime;
  discard_input();
}

void Connection::discard_input() {
  std::array<char, 16384> bytes{};
  while (true) {
    const ssize_t count = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return wait_readable();
    discarded_bytes_ += count;
    if (count <= 0 || discarded_bytes_ > kMaxDiscardedBytes) return close();
  }
}

void Connection::close() {
  if (std::exchange(state_, State::kClosed) == State::kClosed) return;
  error_code ignored;
  socket_.close(ignored);
  unsent_.clear();
  if (const auto on_gone = std::exchange(on_gone_, nullptr)) on_gone();
  on_closed_(this);
}

void Connection::drain() {
  draining_ = true;
  if (state_ == State::kIdle) close();
}

void Connection::cut_off() {
  if (state_ == State::kReading) fail(503, kServerEnding);
}

void Connection::check(Clock::time_point now) {
  // If more input has arrived while an answer is being made, no read waits on the socket, so the
  // client's end would go unnoticed.
  if (state_ == State::kAnswering && (peer_done_ || has_input_ || buffer_.size() > 0)) {
    pollfd peer{socket_.native_handle(), POLLRDHUP, 0};
    if (::poll(&peer, 1, 0) > 0) {
      if ((peer.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return close();
      if ((peer.revents & POLLRDHUP) != 0) on_peer_done();
    }
    if (peer_done_ && now >= next_ask_) ask_whether_there(now);
  }
  if (now >= write_deadline_) return close();
  if (now < read_deadline_) return;
  if (state_ != State::kReading) return close();
  read_deadline_ = Clock::time_point::max();
  timed_out_ = true;
  error_code ignored;
  socket_.cancel(ignored);  // the read ends with an error
}

}  // namespace forerun::server
