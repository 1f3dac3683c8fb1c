// One client's connection to a server of OpenAI's API: sends streaming calls, one after the other,
// and records the times of arrival. Runs on the thread of its io_context.
#pragma once

#include <boost/asio/io_context.hpp>
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
#include <string_view>
#include <vector>

namespace forerun::bench {

struct StreamCall {
  std::string path, body;
  int32_t leave_after_events = 0;  // 0: stays to the end
};

struct StreamOutcome {
  using Clock = std::chrono::steady_clock;
  enum class Kind : uint8_t { kComplete, kRefused, kLeft, kFailed };

  Kind kind = Kind::kFailed;
  std::string failure;  // kFailed: the reason
  // kRefused: the delay in a reply with status 429, which must have one.
  std::chrono::seconds retry_after{0};
  Clock::time_point sent;
  std::vector<Clock::time_point> events;  // arrivals of events with text
  std::vector<Clock::time_point> stamps;  // one stamp per event, if a null engine made the text
  int64_t output_tokens = 0;              // from the server's usage
};

class StreamConnection : public std::enable_shared_from_this<StreamConnection> {
 public:
  using Clock = StreamOutcome::Clock;
  using OnDone = std::function<void(StreamOutcome)>;

  // `reads_stamps`: texts come from a null engine.
  StreamConnection(boost::asio::io_context& context, boost::asio::ip::tcp::endpoint server,
                   bool reads_stamps)
      : socket_(context), server_(std::move(server)), reads_stamps_(reads_stamps) {}

  // Starts a call; one call at a time. `on_done` is called at its end, never from within start().
  void start(StreamCall call, OnDone on_done);
  bool is_busy() const { return on_done_ != nullptr; }
  // Ends a call without any input since `before` as failed.
  void check_silence(Clock::time_point before);

 private:
  using Parser = boost::beast::http::response_parser<boost::beast::http::string_body>;

  void write();
  void read();
  void on_read(const boost::system::error_code& error, size_t bytes);
  // Parses the input as far as it is complete. Returns false once the call is over.
  bool parse();
  bool take_events();
  void take_event(std::string_view data);
  void take_answer();
  void finish(StreamOutcome::Kind kind, const std::string& failure = {});

  boost::asio::ip::tcp::socket socket_;
  const boost::asio::ip::tcp::endpoint server_;
  const bool reads_stamps_;
  StreamCall call_;
  OnDone on_done_;
  std::string request_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::string unread_;     // part of the stream after the last whole event
  bool is_whole_ = false;  // the stream has ended
  StreamOutcome outcome_;
  Clock::time_point heard_;
};

}  // namespace forerun::bench
