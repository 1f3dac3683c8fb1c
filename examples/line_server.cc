// Serves any number of clients from one thread: line_server MODEL DRAFT SOCKET [MAX_TOKENS]
//
// Listens on the Unix socket SOCKET. A client sends one line, the prompt, and reads its
// continuation as it is generated; the connection closes at its end. A client that disconnects
// cancels its request.
//
//   line_server models/demo-target models/demo-draft /tmp/lines &
//   echo 'def fibonacci(n):' | nc -U /tmp/lines
//
// The thread sleeps in one epoll for the listening socket, the clients and the engine's completion
// queue. Ends at SIGTERM or SIGINT.
#include <forerun/engine.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

namespace {

// The ids of epoll's other descriptors; a client's id is its descriptor.
constexpr uint64_t kListener = ~uint64_t{0};
constexpr uint64_t kEvents = ~uint64_t{1};
constexpr uint64_t kSignals = ~uint64_t{2};

struct Client {
  uint64_t tag = 0;     // tag of its request, 0 before; descriptors are reused, tags are not
  std::string prompt;   // text up to the end of the line
  std::string unsent;   // output that its socket has not accepted
  bool ended = false;   // no more text is added to `unsent`
  bool writes = false;  // epoll reports when it is writable
  std::shared_ptr<forerun::RequestHandle> request;  // dropping it cancels the request
};

class Server {
 public:
  Server(forerun::Engine& engine, forerun::CompletionQueue& queue, int32_t max_tokens)
      : engine_(engine), queue_(queue), max_tokens_(max_tokens) {}

  // Returns false if the socket cannot be opened.
  bool listen(const char* path);
  void run();

 private:
  void watch(int descriptor, uint64_t name, uint32_t events, int operation);
  void accept_clients();
  void read_prompt(int descriptor);
  void submit(int descriptor, Client& client);
  void take_events();
  void send_unsent(int descriptor);
  void drop(int descriptor);

  forerun::Engine& engine_;
  forerun::CompletionQueue& queue_;
  const int32_t max_tokens_;
  const int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  int listener_ = -1;
  std::unordered_map<int, Client> clients_;        // keyed by descriptor
  std::unordered_map<uint64_t, int> descriptors_;  // keyed by tag
  uint64_t next_tag_ = 1;
};

void Server::watch(int descriptor, uint64_t name, uint32_t events, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  if (epoll_ctl(epoll_, operation, descriptor, &event) != 0) std::perror("epoll_ctl");
}

bool Server::listen(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof(address.sun_path)) return false;
  std::strcpy(address.sun_path, path);
  ::unlink(path);
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return listener_ >= 0 &&
         ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
         ::listen(listener_, SOMAXCONN) == 0;
}

void Server::accept_clients() {
  while (true) {
    const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) return;
    clients_[descriptor] = {};
    watch(descriptor, static_cast<uint64_t>(descriptor), EPOLLIN, EPOLL_CTL_ADD);
  }
}

void Server::read_prompt(int descriptor) {
  Client& client = clients_.at(descriptor);
  char bytes[4096];
  while (true) {
    const ssize_t count = ::recv(descriptor, bytes, sizeof(bytes), 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return drop(descriptor);  // it disconnected: its request is cancelled
    if (client.request) continue;             // its line is complete
    client.prompt.append(bytes, static_cast<size_t>(count));
    const size_t end = client.prompt.find('\n');
    if (end == std::string::npos) continue;
    client.prompt.resize(end);
    return submit(descriptor, client);
  }
}

void Server::submit(int descriptor, Client& client) {
  forerun::Request request;
  request.prompt = client.prompt;
  request.max_new_tokens = max_tokens_;
  request.sampling.temperature = 0.0f;
  client.tag = next_tag_++;
  auto handle = engine_.submit(std::move(request), queue_, client.tag);
  if (handle.ok()) {
    client.request = std::move(*handle);
    descriptors_[client.tag] = descriptor;
    return;
  }
  client.unsent = "error: " + handle.status().message() + "\n";
  client.ended = true;
  send_unsent(descriptor);
}

void Server::take_events() {
  while (auto completion = queue_.poll()) {
    const auto found = descriptors_.find(completion->tag);
    if (found == descriptors_.end()) continue;  // its client has disconnected
    const int descriptor = found->second;
    Client& client = clients_.at(descriptor);
    client.unsent += completion->event.text;
    if (completion->event.finished) {
      client.ended = true;
      descriptors_.erase(found);
    }
    send_unsent(descriptor);
  }
}

// Sends as much as the socket accepts, so that a slow client never blocks another.
void Server::send_unsent(int descriptor) {
  Client& client = clients_.at(descriptor);
  while (!client.unsent.empty()) {
    const ssize_t count =
        ::send(descriptor, client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN) return drop(descriptor);
    if (count < 0) break;
    client.unsent.erase(0, static_cast<size_t>(count));
  }
  if (client.unsent.empty() && client.ended) return drop(descriptor);
  if (client.writes == !client.unsent.empty()) return;
  client.writes = !client.unsent.empty();
  watch(descriptor, static_cast<uint64_t>(descriptor), EPOLLIN | (client.writes ? EPOLLOUT : 0u),
        EPOLL_CTL_MOD);
}

void Server::drop(int descriptor) {
  descriptors_.erase(clients_.at(descriptor).tag);
  clients_.erase(descriptor);
  ::close(descriptor);
}

void Server::run() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  const int stop = signalfd(-1, &signals, SFD_CLOEXEC);
  watch(stop, kSignals, EPOLLIN, EPOLL_CTL_ADD);
  watch(listener_, kListener, EPOLLIN, EPOLL_CTL_ADD);
  watch(queue_.fd(), kEvents, EPOLLIN, EPOLL_CTL_ADD);
  std::puts("listening");
  std::fflush(stdout);
  while (true) {
    epoll_event ready[64];
    const int count = epoll_wait(epoll_, ready, 64, -1);
    for (int idx = 0; idx < count; ++idx) {
      const uint64_t name = ready[idx].data.u64;
      const auto descriptor = static_cast<int>(name);
      if (name == kSignals) return;
      if (name == kListener) {
        accept_clients();
      } else if (name == kEvents) {
        take_events();
      } else {
        // An event of this round may have dropped it.
        if ((ready[idx].events & EPOLLOUT) != 0 && clients_.contains(descriptor)) {
          send_unsent(descriptor);
        }
        if ((ready[idx].events & ~uint32_t{EPOLLOUT}) != 0 && clients_.contains(descriptor)) {
          read_prompt(descriptor);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    std::fprintf(stderr, "usage: line_server MODEL DRAFT SOCKET [MAX_TOKENS]\n");
    return 2;
  }
  // Done before the engine starts threads, so that none of them receives these signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  forerun::EngineOptions options;
  options.model = argv[1];
  options.draft = argv[2];
  options.cost_cache = forerun::default_cost_cache();  // later starts need not measure
  auto queue = forerun::CompletionQueue::create();
  auto engine = forerun::Engine::create(options);
  if (!engine.ok() || !queue.ok()) {
    const forerun::Status failure = engine.ok() ? queue.status() : engine.status();
    std::fprintf(stderr, "line_server: %s\n", failure.message().c_str());
    return 1;
  }
  Server server(**engine, **queue, argc == 5 ? std::atoi(argv[4]) : 64);
  if (!server.listen(argv[3])) {
    std::perror(argv[3]);
    return 1;
  }
  server.run();
  ::unlink(argv[3]);
  return 0;
}
