#include "serving/stream_connection.h"

#include <boost/asio/write.hpp>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

namespace forerun::bench {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr size_t kReadBytes = 16 << 10;

// Returns the text after the first `name` in `data`; nothing if there is none.
std::optional<std::string_view> behind(std::string_view data, std::string_view name) {
  const size_t at = data.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  return data.substr(at + name.size());
}

}  // namespace

void StreamConnection::start(StreamCall call, OnDone on_done) {
  call_ = std::move(call);
  on_done_ = std::move(on_done);
  outcome_ = {};
  unread_.clear();
  is_whole_ = false;
  heard_ = Clock::now();
  request_ =
      "POST " + call_.path + " HTTP/1.1\r\nHost: " + server_.address().to_string() + ":" +
      std::to_string(server_.port()) +
      "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(call_.body.size()) +
      "\r\n\r\n" + call_.body;
  if (socket_.is_open()) return write();
  socket_.async_connect(server_, [self = shared_from_this()](const error_code& error) {
    if (error) {
      return self->finish(StreamOutcome::Kind::kFailed, "cannot connect: " + error.message());
    }
    error_code ignored;
    self->socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    self->write();
  });
}

void StreamConnection::write() {
  outcome_.sent = Clock::now();
  parser_.emplace();
  parser_->eager(true);
  parser_->body_limit(boost::none);
  asio::async_write(socket_, asio::buffer(request_),
                    [self = shared_from_this()](const error_code& error, size_t) {
                      if (error) {
                        return self->finish(StreamOutcome::Kind::kFailed,
                                            "cannot send: " + error.message());
                      }
                      self->read();
                    });
}

void StreamConnection::read() {
  socket_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](const error_code& error, size_t bytes) {
                            self->on_read(error, bytes);
                          });
}

void StreamConnection::on_read(const error_code& error, size_t bytes) {
  if (!is_busy()) return;
  if (error) {
    return finish(StreamOutcome::Kind::kFailed, "the connection ended: " + error.message());
  }
  heard_ = Clock::now();
  buffer_.commit(bytes);
  if (parse()) read();
}

bool StreamConnection::parse() {
  error_code error;
  while (buffer_.size() > 0 && !parser_->is_done()) {
    const size_t used = parser_->put(buffer_.data(), error);
    buffer_.consume(used);
    if (error == http::error::need_more) break;
    if (error) {
      finish(StreamOutcome::Kind::kFailed, "no proper HTTP: " + error.message());
      return false;
    }
  }
  if (!parser_->is_header_done()) return true;
  if (parser_->get().result_int() == 200) {
    if (!take_events()) return false;
    if (!parser_->is_done()) return true;
    finish(is_whole_ ? StreamOutcome::Kind::kComplete : StreamOutcome::Kind::kFailed,
           is_whole_ ? "" : "the stream ended without [DONE]");
    return false;
  }
  if (!parser_->is_done()) return true;
  take_answer();
  return false;
}

bool StreamConnection::take_events() {
  unread_ += std::exchange(parser_->get().body(), {});
  size_t begin = 0;
  for (size_t end = unread_.find("\n\n"); end != std::string::npos;
       end = unread_.find("\n\n", begin)) {
    constexpr std::string_view kData = "data: ";
    const std::string_view event = std::string_view(unread_).substr(begin, end - begin);
    begin = end + 2;
    if (!event.starts_with(kData) || event.starts_with("data: {\"error\"")) {
      finish(StreamOutcome::Kind::kFailed, "event: " + std::string(event.substr(0, 200)));
      return false;
    }
    take_event(event.substr(kData.size()));
  }
  unread_.erase(0, begin);
  const auto leaves_at = static_cast<size_t>(call_.leave_after_events);
  if (leaves_at == 0 || outcome_.events.size() < leaves_at) return true;
  finish(StreamOutcome::Kind::kLeft);
  return false;
}

// Takes an event's text and stamps. The keys of a chunk may be in any order. They are searched for,
// not parsed, since this thread shares its processors with the measured server.
void StreamConnection::take_event(std::string_view data) {
  if (data == "[DONE]") {
    is_whole_ = true;
    return;
  }
  if (const auto usage = behind(data, "\"completion_tokens\":")) {
    std::from_chars(usage->data(), usage->data() + usage->size(), outcome_.output_tokens);
    return;
  }
  auto text = behind(data, "\"text\":\"");
  if (!text) text = behind(data, "\"content\":\"");
  if (!text || text->starts_with('"')) return;
  outcome_.events.push_back(heard_);
  if (!reads_stamps_) return;
  // A text joined from several events counts with the stamp of its first event, which has waited
  // longest.
  int64_t stamp = 0;
  std::from_chars(text->data(), text->data() + text->size(), stamp);
  outcome_.stamps.emplace_back(Clock::duration(stamp));
}

void StreamConnection::take_answer() {
  const auto& answer = parser_->get();
  const auto json = nlohmann::json::parse(answer.body(), nullptr, /*allow_exceptions=*/false);
  const std::string retry_after(answer[http::field::retry_after]);
  int64_t seconds = 0;
  std::from_chars(retry_after.data(), retry_after.data() + retry_after.size(), seconds);
  const bool is_error = json.is_object() && json.contains("error");
  if (answer.result_int() == 429 && is_error && seconds >= 1) {
    outcome_.retry_after = std::chrono::seconds(seconds);
    return finish(StreamOutcome::Kind::kRefused);
  }
  finish(StreamOutcome::Kind::kFailed,
         "status " + std::to_string(answer.result_int()) + ": " + answer.body().substr(0, 200));
}

void StreamConnection::check_silence(Clock::time_point before) {
  if (is_busy() && heard_ < before) finish(StreamOutcome::Kind::kFailed, "nothing came any more");
}

void StreamConnection::finish(StreamOutcome::Kind kind, const std::string& failure) {
  outcome_.kind = kind;
  outcome_.failure = failure;
  const bool stays =
      kind == StreamOutcome::Kind::kComplete || kind == StreamOutcome::Kind::kRefused;
  if (!stays || !parser_->get().keep_alive()) {
    error_code ignored;
    socket_.close(ignored);
    buffer_.clear();
  }
  std::exchange(on_done_, nullptr)(std::move(outcome_));
}

}  // namespace forerun::bench
