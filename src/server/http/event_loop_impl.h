// The implementation of EventLoop, for the files of this folder that use Boost.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <list>
#include <memory>
#include <utility>

#include "server/http/event_loop.h"

namespace forerun::server {

struct EventLoop::Impl {
  struct Watched {
    boost::asio::posix::stream_descriptor descriptor;
    std::function<void()> on_readable;
  };
  struct Signals {
    Signals(boost::asio::io_context& context, std::function<void(int)> take)
        : set(context), on_signal(std::move(take)) {}
    boost::asio::signal_set set;
    std::function<void(int)> on_signal;
  };

  boost::asio::io_context context{1};
  std::list<Watched> watched;
  std::list<Signals> signals;

  ~Impl() {
    for (Watched& each : watched) each.descriptor.release();  // the caller owns it
  }
  static void wait(Watched& watched);
  static void wait(Signals& signals);
};

}  // namespace forerun::server
