#include "server/http/event_loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <string>
#include <utility>

#include "server/http/event_loop_impl.h"

namespace forerun::server {

namespace asio = boost::asio;
using boost::system::error_code;

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::run() {
  const auto stays = asio::make_work_guard(impl_->context);
  impl_->context.run();
}

void EventLoop::stop() { impl_->context.stop(); }

void EventLoop::post(std::function<void()> task) { asio::post(impl_->context, std::move(task)); }

void EventLoop::after(std::chrono::milliseconds delay, std::function<void()> task) {
  auto timer = std::make_shared<asio::steady_timer>(impl_->context, delay);
  timer->async_wait([timer, task = std::move(task)](const error_code& error) {
    if (!error) task();
  });
}

void EventLoop::Impl::wait(Watched& watched) {
  watched.descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                [&watched](const error_code& error) {
                                  if (error) return;
                                  watched.on_readable();
                                  wait(watched);
                                });
}

Status EventLoop::watch(int descriptor, std::function<void()> on_readable) {
  asio::posix::stream_descriptor readable(impl_->context);
  error_code error;
  readable.assign(descriptor, error);
  if (error) return {StatusCode::kInternal, "cannot wait for a descriptor: " + error.message()};
  Impl::wait(
      impl_->watched.emplace_back(Impl::Watched{std::move(readable), std::move(on_readable)}));
  return {};
}

void EventLoop::Impl::wait(Signals& signals) {
  signals.set.async_wait([&signals](const error_code& error, int number) {
    if (error) return;
    signals.on_signal(number);
    wait(signals);
  });
}

Status EventLoop::on_signals(const std::vector<int>& signals, std::function<void(int)> on_signal) {
  Impl::Signals& handled = impl_->signals.emplace_back(impl_->context, std::move(on_signal));
  for (const int number : signals) {
    error_code error;
    handled.set.add(number, error);
    if (error) return {StatusCode::kInternal, "cannot handle a signal: " + error.message()};
  }
  Impl::wait(handled);
  return {};
}

}  // namespace forerun::server
