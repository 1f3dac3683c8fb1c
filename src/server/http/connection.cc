#include "server/http/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <utility>

namespace forerun::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds kLingerTime{2};
constexpr int64_t kMaxDiscardedBytes = 64 << 20;
constexpr size_t kHeadPiece = 4096;
// The largest piece of a body that one read takes.
constexpr size_t kBodyPiece = 64 << 10;
constexpr const char* kServerEnding = "the server is ending";

// Whether an id may stand in headers and logs.
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

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, const HttpOptions& options,
                       const HttpHandlers& handlers, std::shared_ptr<BodyBudget> bodies,
                       std::function<void(Connection*)> on_closed)
    : socket_(std::move(socket)),
      options_(options),
      handlers_(handlers),
      on_closed_(std::move(on_closed)),
      bodies_(std::move(bodies)) {
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
  request_ = {};
  body_memory_ = nullptr;
  if (buffer_.size() > 0 || std::exchange(has_input_, false)) return read_request();
  buffer_ = {};  // an idle connection holds no memory that it need not
  wait_readable();
}

// There is one wait at a time; what follows it depends on the state when it ends.
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

// The socket has nothing more to read, so from here on check() finds out whether the client has
// gone.
void Connection::on_peer_done() {
  if (std::exchange(peer_done_, true)) return;
  ask_whether_there(Clock::now());
}

void Connection::read_request() {
  state_ = State::kReading;
  read_deadline_ = Clock::now() + options_.header_time;
  version_ = 11;
  head_only_ = false;
  scanner_ = HeadScanner(static_cast<size_t>(options_.max_header_bytes));
  buffer_.max_size(static_cast<size_t>(options_.max_header_bytes) + 2 * kBodyPiece);
  scan_head();
}

std::string_view Connection::buffered() const {
  const auto bytes = buffer_.data();
  return {static_cast<const char*>(bytes.data()), bytes.size()};
}

void Connection::scan_head() {
  switch (scanner_.scan(buffered())) {
    case HeadScanner::Verdict::kWhole:
      return parse_head();
    case HeadScanner::Verdict::kBad:
      return fail(400, "not an HTTP request: " + std::string(scanner_.fault()));
    case HeadScanner::Verdict::kTooLong:
      return fail(431, "headers: too long; accepted: up to " +
                           std::to_string(options_.max_header_bytes) + " bytes");
    case HeadScanner::Verdict::kMore:
      break;
  }
  if (!scanner_.has_begun() && buffer_.size() > 0) {  // empty lines alone, as some clients add them
    buffer_.consume(buffer_.size());
    return be_idle();
  }
  socket_.async_read_some(buffer_.prepare(kHeadPiece),
                          [self = shared_from_this()](const error_code& error, size_t count) {
                            self->on_head_bytes(error, count);
                          });
}

void Connection::on_head_bytes(const error_code& error, size_t count) {
  if (state_ != State::kReading) return;  // it was cut off meanwhile
  if (error == asio::error::eof && scanner_.has_begun()) {
    return fail(400, "not an HTTP request: it ends within its headers");
  }
  if (error) return refuse_malformed(error);
  buffer_.commit(count);
  scan_head();
}

void Connection::parse_head() {
  buffer_.consume(scanner_.blank_bytes());
  const size_t length = scanner_.head_end() - scanner_.blank_bytes();
  const std::string_view line = buffered().substr(0, buffered().find('\r'));
  parser_.emplace();
  // The scanner has already limited the head's bytes.
  parser_->header_limit(static_cast<std::uint32_t>(options_.max_header_bytes + 1));
  parser_->body_limit(static_cast<std::uint64_t>(options_.max_body_bytes));
  error_code error;
  parser_->put(asio::const_buffer(buffer_.data().data(), length), error);
  if (error == http::error::bad_version && ends_in_http_version(line)) {
    return fail(505, "request line: found '" + std::string(line.substr(line.size() - 8)) +
                         "'; accepted: HTTP/1.1 and HTTP/1.0");
  }
  buffer_.consume(length);
  if (!error || error == http::error::body_limit) take_fields();
  if (error) return refuse_malformed(error);
  const std::string target(parser_->get().target());
  if (const std::optional<HeadFault> fault = read_head(target, request_)) {
    return fail(fault->status, fault->message);
  }
  if (std::optional<HttpResponse> refusal = handlers_.refuse(request_)) {
    return answer_and_close(std::move(*refusal));
  }
  begin_body();
}

void Connection::take_fields() {
  const auto& message = parser_->get();
  version_ = message.version();
  keep_alive_ = message.keep_alive();
  request_ = {};
  request_.version = version_;
  request_.method = std::string(message.method_string());
  head_only_ = request_.method == "HEAD";
  for (const auto& field : message) {
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  const std::string_view given = request_.header("X-Request-Id");
  request_.id = is_fit_id(given) ? std::string(given) : new_id();
}

void Connection::refuse_malformed(const error_code& error) {
  if (timed_out_) return fail(408, "the request took longer to arrive than is allowed");
  if (error == http::error::body_limit) {
    return fail(413, "body: too large; accepted: up to " + std::to_string(options_.max_body_bytes) +
                         " bytes");
  }
  if (error == http::error::bad_content_length) {
    return fail(400,
                "Content-Length: malformed or repeated; accepted: one decimal number, without "
                "Transfer-Encoding");
  }
  if (error == http::error::bad_transfer_encoding) {
    return fail(400,
                "Transfer-Encoding: malformed or repeated; accepted: 'chunked' once, without "
                "Content-Length");
  }
  const bool is_http = error.category() == make_error_code(http::error::end_of_stream).category();
  if (error == http::error::end_of_stream || !is_http) return close();  // the client has left
  fail(400, "not an HTTP request: " + error.message());
}

void Connection::begin_body() {
  const auto announced = parser_->content_length();
  chunks_.reset();
  if (parser_->chunked()) {
    chunks_.emplace(static_cast<uint64_t>(options_.max_body_bytes),
                    static_cast<size_t>(options_.max_header_bytes));
  }
  body_left_ = announced ? *announced : 0;
  body_is_whole_ = !chunks_ && body_left_ == 0;
  parser_.reset();
  if (body_is_whole_) return handle();
  body_memory_ = std::make_shared<BodyMemory>(bodies_);
  if (!bodies_->has_room(static_cast<int64_t>(body_left_))) return refuse_body();
  for (const std::string& member : list_of(request_.headers, "Expect")) {
    if (version_ < 11 || member.empty()) continue;
    send("HTTP/1.1 100 Continue\r\n\r\n");
    break;
  }
  body_deadline_ = Clock::now() + options_.body_time;
  read_body();
}

void Connection::read_body() {
  if (chunks_) {
    if (!take_chunks()) return;
  } else {
    const auto count = static_cast<size_t>(std::min<uint64_t>(body_left_, buffer_.size()));
    request_.body.append(buffered(), 0, count);
    buffer_.consume(count);
    body_left_ -= count;
    body_is_whole_ = body_left_ == 0;
  }
  if (!body_memory_->grow_to(static_cast<int64_t>(request_.body.size()))) return refuse_body();
  if (body_is_whole_) return handle();
  read_deadline_ = std::min(body_deadline_, Clock::now() + options_.body_stall_time);
  socket_.async_read_some(buffer_.prepare(kBodyPiece),
                          [self = shared_from_this()](const error_code& error, size_t count) {
                            self->on_body_bytes(error, count);
                          });
}

void Connection::on_body_bytes(const error_code& error, size_t count) {
  if (state_ != State::kReading) return;  // it was cut off meanwhile
  if (error == asio::error::eof) {
    return fail(400, "not an HTTP request: it ends within its body");
  }
  if (error) return refuse_malformed(error);
  buffer_.commit(count);
  read_body();
}

bool Connection::take_chunks() {
  std::string_view bytes = buffered();
  const size_t before = bytes.size();
  const ChunkedBody::Verdict verdict = chunks_->take(&bytes, &request_.body);
  buffer_.consume(before - bytes.size());
  switch (verdict) {
    case ChunkedBody::Verdict::kWhole:
      body_is_whole_ = true;
      return true;
    case ChunkedBody::Verdict::kMore:
      return true;
    case ChunkedBody::Verdict::kBad:
      fail(400, "not an HTTP request: " + std::string(chunks_->fault()));
      return false;
    case ChunkedBody::Verdict::kTooLong:
      fail(431, "body: a chunk's extensions or the trailers are too long; accepted: up to " +
                    std::to_string(options_.max_header_bytes) + " bytes");
      return false;
    case ChunkedBody::Verdict::kTooLarge:
      refuse_malformed(http::error::body_limit);
      return false;
  }
  return false;
}

void Connection::refuse_body() {
  request_.body = {};
  body_memory_ = nullptr;
  fail(503, "body: the memory for request bodies is full; send this request again later");
}

void Connection::handle() {
  state_ = State::kAnswering;
  read_deadline_ = Clock::time_point::max();
  std::string body = std::exchange(request_.body, {});
  HttpRequest whole = request_;  // the head stays, for the answer's
  whole.body = std::move(body);
  whole.body_memory = std::exchange(body_memory_, nullptr);
  is_stream_ = false;
  head_sent_ = false;
  answer_ended_ = false;
  ++number_;
  if (buffer_.size() == 0) wait_readable();
  handlers_.handle(std::move(whole), exchange());
}

void Connection::go_on() {
  on_gone_ = nullptr;
  answer_ended_ = false;
  idle_since_ = Clock::now();
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
  // While an answer is being made and more input has come already, no read waits on the socket, so
  // the client's end would go unnoticed.
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
  socket_.cancel(ignored);  // the reading ends, and says so
}

}  // namespace forerun::server
