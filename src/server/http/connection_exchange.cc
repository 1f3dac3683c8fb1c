#include "server/http/connection_exchange.h"

#include <boost/asio/dispatch.hpp>
#include <utility>

namespace forerun::server {

template <class Message>
void ConnectionExchange::tell(Message message) {
  boost::asio::dispatch(
      connection_->executor(),
      [connection = connection_, message = std::move(message)]() mutable { message(*connection); });
}

ConnectionExchange::~ConnectionExchange() {
  if (begun_) return;
  HttpResponse response;
  response.status = 500;
  ConnectionExchange::respond(std::move(response));
}

void ConnectionExchange::respond(HttpResponse response) {
  begun_ = true;
  tell([number = number_, response = std::move(response)](Connection& connection) {
    connection.respond(number, response);
  });
}

void ConnectionExchange::begin_events() {
  begun_ = true;
  tell([number = number_](Connection& connection) { connection.begin_events(number); });
}

void ConnectionExchange::send_event(const std::string& data, const std::string& event) {
  tell([number = number_, data, event](Connection& connection) {
    connection.send_event(number, data, event);
  });
}

void ConnectionExchange::end_events() {
  tell([number = number_](Connection& connection) { connection.end_events(number); });
}

void ConnectionExchange::when_gone(std::function<void()> on_gone) {
  tell([number = number_, on_gone = std::move(on_gone)](Connection& connection) mutable {
    connection.when_gone(number, std::move(on_gone));
  });
}

}  // namespace forerun::server
