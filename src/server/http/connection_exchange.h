// An Exchange that passes its calls to its connection on the loop's thread. For the files of this
// folder that use Boost.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http/connection.h"
#include "server/http/exchange.h"

namespace forerun::server {

// The exchange of request `number` of the connection. If it is destroyed without an answer, it
// answers with 500.
class ConnectionExchange : public Exchange {
 public:
  ConnectionExchange(std::shared_ptr<Connection> connection, uint64_t number)
      : connection_(std::move(connection)), number_(number) {}
  ~ConnectionExchange() override;

  void respond(HttpResponse response) override;
  void begin_events() override;
  void send_event(const std::string& data, const std::string& event) override;
  void end_events() override;
  void when_gone(std::function<void()> on_gone) override;

 private:
  template <class Message>
  void tell(Message message);

  const std::shared_ptr<Connection> connection_;
  const uint64_t number_;
  bool begun_ = false;
};

}  // namespace forerun::server
