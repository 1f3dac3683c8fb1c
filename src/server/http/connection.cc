#include "server/http/connection.h"

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <sstream>
#include <utility>

namespace forerun::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds kLingerTime{2};
constexpr int64_t kMostDiscardedBytes = 64 << 20;

// Fit for headers and logs.
bool is_fit_id(std::string_view id) {
  if (id.empty() || id.size() > 128) return false;
  for (const char letter : id) {
    const bool fit = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' ||
                     letter == '_' || letter == '.' || letter == ':';
    if (!fit) return false;
  }
  return true;
}

std::string new_id() {
  static std::atomic<uint64_t> count{0};
  static const auto start =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  char text[48];
  std::snprintf(text, sizeof(text), "req-%llx-%llx", static_cast<unsigned long long>(start / 1000),
                static_cast<unsigned long long>(++count));
  return text;
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  const size_t length = std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return std::string(text, length);
}

// What an Exchange tells its connection, on the loop's thread.
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

Connection::Connection(asio::ip::tcp::socket socket, const HttpOptions& options,
                       const HttpHandlers& handlers, std::function<void(Connection*)> on_closed)
    : socket_(std::move(socket)),
      options_(options),
      handlers_(handlers),
      on_closed_(std::move(on_closed)) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
}

void Connection::start() { be_idle(); }

void Connection::turn_away(int status, const std::string& message) { fail(status, message); }

void Connection::be_idle() {
  state_ = State::kIdle;
  idle_since_ = Clock::now();
  read_deadline_ = idle_since_ + options_.idle_time;
  request_ = {};
  if (buffer_.size() > 0 || std::exchange(has_input_, false)) return read_request();
  buffer_ = {};  // an idle connection holds no memory that it need not
  wait_readable();
}

// One wait at a time; what it means depends on the state at its end.
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
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return close();
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

void Connection::read_request() {
  state_ = State::kReading;
  read_deadline_ = Clock::now() + options_.header_time;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(options_.max_header_bytes));
  parser_->body_limit(static_cast<std::uint64_t>(options_.max_body_bytes));
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](const error_code& error, size_t) { self->on_header(error); });
}

void Connection::refuse_malformed(const error_code& error) {
  if (state_ == State::kClosed) return;
  if (timed_out_) return fail(408, "the request took longer to arrive than it may");
  if (error == http::error::header_limit) {
    return fail(
        431, "headers: accepted are up to " + std::to_string(options_.max_header_bytes) + " bytes");
  }
  if (error == http::error::body_limit) {
    return fail(413,
                "body: accepted are up to " + std::to_string(options_.max_body_bytes) + " bytes");
  }
  const bool is_http = error.category() == make_error_code(http::error::end_of_stream).category();
  if (error == http::error::end_of_stream || !is_http) return close();  // it has left
  fail(400, "not an HTTP request: " + error.message());
}

void Connection::on_header(const error_code& error) {
  if (error || state_ == State::kClosed) return refuse_malformed(error);
  take_head();
  if (!request_.header("Transfer-Encoding").empty() && !request_.header("Content-Length").empty()) {
    return fail(400, "Content-Length: found beside Transfer-Encoding, accepted is one of them");
  }
  if (std::optional<HttpResponse> refusal = handlers_.refuse(request_)) {
    return answer_and_close(std::move(*refusal));
  }
  if (parser_->is_done()) return handle();
  if (equal_ignoring_case(request_.header("Expect"), "100-continue")) {
    send("HTTP/1.1 100 Continue\r\n\r\n");
  }
  read_deadline_ = Clock::now() + options_.body_time;
  http::async_read(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](const error_code& failed, size_t) { self->on_body(failed); });
}

void Connection::take_head() {
  const auto& message = parser_->get();
  version_ = message.version();
  keep_alive_ = message.keep_alive();
  request_ = {};
  request_.method = std::string(message.method_string());
  head_only_ = request_.method == "HEAD";
  const std::string target(message.target());
  const size_t mark = target.find('?');
  request_.path = target.substr(0, mark);
  if (mark != std::string::npos) request_.query = target.substr(mark + 1);
  for (const auto& field : message) {
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  const std::string_view given = request_.header("X-Request-Id");
  request_.id = is_fit_id(given) ? std::string(given) : new_id();
}

void Connection::on_body(const error_code& error) {
  if (error || state_ == State::kClosed) return refuse_malformed(error);
  handle();
}

void Connection::handle() {
  state_ = State::kAnswering;
  read_deadline_ = Clock::time_point::max();
  HttpRequest whole = request_;  // the head stays, for the answer's
  whole.body = std::move(parser_->get().body());
  parser_.reset();
  is_stream_ = false;
  answer_ended_ = false;
  ++number_;
  if (buffer_.size() == 0) wait_readable();
  handlers_.handle(std::move(whole),
                   std::make_shared<ConnectionExchange>(shared_from_this(), number_));
}

bool Connection::answers(uint64_t number) const {
  return number == number_ && state_ == State::kAnswering && !answer_ended_;
}

void Connection::fail(int status, const std::string& message) {
  answer_and_close(handlers_.failure(status, message));
}

void Connection::answer_and_close(HttpResponse response) {
  state_ = State::kAnswering;
  read_deadline_ = Clock::time_point::max();
  keep_alive_ = false;
  is_stream_ = false;
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
  answer_ended_ = true;
  send(std::move(bytes));
}

void Connection::begin_events(uint64_t number) {
  if (!answers(number)) return;
  is_stream_ = true;
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  send(head_of(head, /*is_stream=*/true));
}

void Connection::send_event(uint64_t number, const std::string& data, const std::string& event) {
  if (!answers(number) || !is_stream_) return;
  std::string bytes;
  bytes.reserve(data.size() + event.size() + 32);
  if (!event.empty()) bytes += "event: " + event + "\n";
  bytes += "data: " + data + "\n\n";
  if (version_ < 11) return send(std::move(bytes));
  char size[24];
  std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
  send(size + bytes + "\r\n");
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

void Connection::go_on() {
  on_gone_ = nullptr;
  answer_ended_ = false;
  if (keep_alive_ && !draining_) return be_idle();
  linger();
}

// Closing with unread input would reset the connection, and the answer might be lost on its way.
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
    if (count <= 0 || discarded_bytes_ > kMostDiscardedBytes) return close();
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

void Connection::check_deadlines(Clock::time_point now) {
  if (now >= write_deadline_) return close();
  if (now < read_deadline_) return;
  if (state_ != State::kReading) return close();
  read_deadline_ = Clock::time_point::max();
  timed_out_ = true;
  error_code ignored;
  socket_.cancel(ignored);  // the reading ends, and says so
}

}  // namespace forerun::server
