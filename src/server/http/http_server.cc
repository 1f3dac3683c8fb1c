#include "server/http/http_server.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <limits>
#include <unordered_map>
#include <utility>

#include "server/http/connection.h"
#include "server/http/event_loop_impl.h"

namespace forerun::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds kSweepEvery{200};
constexpr std::chrono::milliseconds kWithoutDescriptors{100};
constexpr int64_t kOtherDescriptors = 256;  // the engine's files, devices and pipes

// Returns the number of connections for which this process may have descriptors; raises the
// process's limit first.
int32_t max_connections(int32_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted > 0 ? wanted : 256;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  const auto max_descriptors =
      static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int32_t>::max()));
  const int64_t room = std::max<int64_t>(max_descriptors - kOtherDescriptors, max_descriptors / 2);
  return static_cast<int32_t>(wanted > 0 ? std::min<int64_t>(wanted, room) : room);
}

class AsioHttpServer : public HttpServer {
 public:
  AsioHttpServer(EventLoop& loop, const HttpOptions& options, HttpHandlers handlers)
      : options_(options),
        handlers_(std::move(handlers)),
        bodies_(std::make_shared<BodyBudget>(options.body_memory_bytes)),
        acceptor_(loop.impl().context),
        sweeper_(loop.impl().context),
        max_connections_(max_connections(options.max_connections)) {}
  ~AsioHttpServer() override { close_all(); }

  Status open();
  uint16_t port() const override { return port_; }
  int32_t connections() const override { return static_cast<int32_t>(connections_.size()); }
  void drain(std::function<void()> done) override;
  void cut_off() override;
  void close_all() override;

 private:
  void accept();
  void on_accepted(const error_code& error, tcp::socket socket);
  bool make_room();
  std::vector<std::shared_ptr<Connection>> all_connections() const;
  void sweep();
  void on_closed(Connection* connection);

  const HttpOptions options_;
  const HttpHandlers handlers_;
  const std::shared_ptr<BodyBudget> bodies_;
  tcp::acceptor acceptor_;
  asio::steady_timer sweeper_;
  const int32_t max_connections_;
  uint16_t port_ = 0;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  bool draining_ = false;
  std::function<void()> drained_;
};

Status AsioHttpServer::open() {
  const auto refused = [&](const error_code& error) {
    return Status(StatusCode::kInvalidArgument, "cannot listen on " + options_.host + ", port " +
                                                    std::to_string(options_.port) + ": " +
                                                    error.message());
  };
  error_code error;
  tcp::resolver resolver(acceptor_.get_executor());
  const auto found =
      resolver.resolve(options_.host, std::to_string(options_.port), tcp::resolver::passive, error);
  if (error || found.empty()) return refused(error);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (error) return refused(error);
  acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  acceptor_.bind(endpoint, error);
  if (error) return refused(error);
  acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) return refused(error);
  port_ = acceptor_.local_endpoint(error).port();
  accept();
  sweep();
  return {};
}

void AsioHttpServer::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    on_accepted(error, std::move(socket));
  });
}

void AsioHttpServer::on_accepted(const error_code& error, tcp::socket socket) {
  if (error) {  // for example no descriptor is left: clients wait until one is free
    sweeper_.expires_after(kWithoutDescriptors);
    sweeper_.async_wait([this](const error_code& stopped) {
      if (stopped) return;
      if (acceptor_.is_open()) accept();
      sweep();
    });
    return;
  }
  const bool has_room = make_room();
  auto connection = std::make_shared<Connection>(std::move(socket), options_, handlers_, bodies_,
                                                 [this](Connection* closed) { on_closed(closed); });
  connections_.emplace(connection.get(), connection);
  if (has_room) {
    connection->start();
  } else {
    connection->turn_away(
        503, "too many open connections, the limit is " + std::to_string(max_connections_));
  }
  accept();
}

// Closes the connection that has been idle for longest.
bool AsioHttpServer::make_room() {
  if (connections() < max_connections_) return true;
  Connection* oldest = nullptr;
  for (const auto& [connection, owner] : connections_) {
    if (!connection->is_idle()) continue;
    if (oldest == nullptr || connection->idle_since() < oldest->idle_since()) oldest = connection;
  }
  if (oldest != nullptr) oldest->close();
  return oldest != nullptr;
}

// Returns a copy, since connections remove themselves from the list as they close.
std::vector<std::shared_ptr<Connection>> AsioHttpServer::all_connections() const {
  std::vector<std::shared_ptr<Connection>> all;
  all.reserve(connections_.size());
  for (const auto& [connection, owner] : connections_) all.push_back(owner);
  return all;
}

void AsioHttpServer::sweep() {
  sweeper_.expires_after(kSweepEvery);
  sweeper_.async_wait([this](const error_code& stopped) {
    if (stopped) return;
    const auto now = Connection::Clock::now();
    for (const auto& connection : all_connections()) connection->check(now);
    sweep();
  });
}

void AsioHttpServer::on_closed(Connection* connection) {
  connections_.erase(connection);
  if (!draining_ || !connections_.empty()) return;
  if (const auto drained = std::exchange(drained_, nullptr)) drained();
}

void AsioHttpServer::drain(std::function<void()> done) {
  draining_ = true;
  drained_ = std::move(done);
  error_code ignored;
  acceptor_.close(ignored);
  for (const auto& connection : all_connections()) connection->drain();
  if (!connections_.empty()) return;
  if (const auto drained = std::exchange(drained_, nullptr)) drained();
}

void AsioHttpServer::cut_off() {
  for (const auto& connection : all_connections()) connection->cut_off();
}

void AsioHttpServer::close_all() {
  error_code ignored;
  acceptor_.close(ignored);
  for (const auto& connection : all_connections()) connection->close();
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(EventLoop& loop, const HttpOptions& options,
                                                       HttpHandlers handlers) {
  auto server = std::make_unique<AsioHttpServer>(loop, options, std::move(handlers));
  const Status opened = server->open();
  if (!opened.ok()) return opened;
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace forerun::server
