// Tests messages between the ranks of a launch, which are threads here, and the start of a launch.
#include "hosts/messenger.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hosts/hosts.h"
#include "hosts/local_transport.h"
#include "hosts/slow_links.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;
constexpr auto kMessageTimeout = std::chrono::seconds(20);

Messenger::Clock::time_point soon() { return Messenger::Clock::now() + kMessageTimeout; }

Bytes numbered(const Messenger& messenger, uint32_t number) {
  Bytes frame = messenger.begin(FrameKind::kReport);
  append_value(frame, number);
  return frame;
}

uint32_t number_of(const Incoming& incoming) {
  WireReader from(incoming.payload());
  return from.get<uint32_t>("number");
}

TEST(Messenger, MessagesOfOneRankComeInOrder) {
  LocalNetwork network(3);
  const LinkSpeed slow{.delay = milliseconds(2), .bytes_per_second = 1e6};
  Messenger first(std::make_unique<SlowLinks>(network.transport(0), slow), {});
  Messenger second(network.transport(1), {});
  Messenger third(network.transport(2), {});
  for (Messenger* messenger : {&first, &second, &third}) messenger->set_generation(5);
  for (uint32_t number = 0; number < 50; ++number) {
    first.send(2, numbered(first, number));
    second.send(2, numbered(second, 1000 + number));
  }
  uint32_t next_of[] = {0, 1000};
  for (int idx = 0; idx < 100; ++idx) {
    const auto incoming = third.receive(soon());
    ASSERT_TRUE(incoming.ok());
    EXPECT_EQ(number_of(*incoming), next_of[incoming->from]++);
  }
}

TEST(Messenger, MessagesOfAnotherLaunchAreThrownAway) {
  LocalNetwork network(2);
  Messenger old(network.transport(0), {});
  Messenger receiver(network.transport(1), {});
  old.set_generation(4);
  receiver.set_generation(5);
  old.send(1, numbered(old, 1));
  old.set_generation(5);
  old.send(1, numbered(old, 2));
  const auto incoming = receiver.receive(soon());
  ASSERT_TRUE(incoming.ok());
  EXPECT_EQ(number_of(*incoming), 2u);
}

TEST(Messenger, WhoFallsSilentIsLost) {
  LocalNetwork network(2);
  const MessengerOptions options{.ping_every = milliseconds(5),
                                 .longest_silence = milliseconds(200)};
  Messenger first(network.transport(0), options);
  Messenger second(network.transport(1), options);
  first.set_generation(5);
  second.set_generation(5);
  first.watch(1);
  // The rank sends nothing, but its messenger pings, so it counts as alive.
  EXPECT_EQ(first.receive(Messenger::Clock::now() + milliseconds(500)).status().code(),
            StatusCode::kDeadlineExceeded);
  network.cut(0, 1);
  const auto incoming = first.receive(soon());
  ASSERT_TRUE(incoming.ok());
  EXPECT_EQ(incoming->from, 1);
  EXPECT_NE(incoming->lost.message().find("200 ms"), std::string::npos);
}

// This happens if the previous stage receives the coordinator's notice, and starts, before this
// stage does.
TEST(Messenger, StepsStayForWhoListens) {
  LocalNetwork network(2);
  Messenger first(network.transport(0), {});
  Messenger second(network.transport(1), {});
  first.set_generation(5);
  second.set_generation(5);
  first.send(1, first.begin(FrameKind::kStep));
  first.send(1, numbered(first, 1));
  const auto incoming = second.receive(soon());
  ASSERT_TRUE(incoming.ok());
  EXPECT_EQ(incoming->kind, FrameKind::kReport);
  std::vector<FrameKind> heard;
  second.listen([&](Incoming&& later) { heard.push_back(later.kind); });
  second.unlisten();
  EXPECT_EQ(heard, std::vector<FrameKind>{FrameKind::kStep});
}

// Runs every rank of a launch on a thread of its own.
void run_ranks(int32_t num_ranks, const std::function<HostsOptions(int32_t)>& options,
               const std::function<void(int32_t rank, Result<std::unique_ptr<Hosts>>)>& part) {
  LocalNetwork network(num_ranks);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(num_ranks));
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back(
        [&, rank] { part(rank, Hosts::join(network.transport(rank), options(rank))); });
  }
  for (std::thread& thread : threads) thread.join();
}

HostsOptions named(int32_t rank) {
  HostsOptions options;
  options.host = "host" + std::to_string(rank);
  return options;
}

TEST(Hosts, AgreeWhereAllSayTheSame) {
  run_ranks(4, named, [](int32_t rank, Result<std::unique_ptr<Hosts>> joined) {
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    Hosts& hosts = **joined;
    EXPECT_EQ(hosts.rank(), rank);
    EXPECT_EQ(hosts.num_stages(), 3);
    ASSERT_TRUE(hosts.agree(HostFacts{{"version", "1"}, {"model", "demo"}}).ok());
    if (rank > 0) {
      hosts.report(Bytes(static_cast<size_t>(rank)));
      const auto notice = hosts.take_notice();
      ASSERT_TRUE(notice.ok());
      EXPECT_EQ(notice->size(), 9u);
      return;
    }
    EXPECT_EQ(hosts.describe(2), "rank 2 (stage 2 of 3, host host2)");
    const auto reports = hosts.gather();
    ASSERT_TRUE(reports.ok());
    for (size_t stage = 0; stage < 3; ++stage) EXPECT_EQ((*reports)[stage].size(), stage + 1);
    hosts.give_notice(Bytes(9));
  });
}

TEST(Hosts, AMismatchNamesBoth) {
  run_ranks(3, named, [](int32_t rank, Result<std::unique_ptr<Hosts>> joined) {
    ASSERT_TRUE(joined.ok());
    const Status agreed =
        (*joined)->agree(HostFacts{{"version", "1"}, {"model", rank == 2 ? "other" : "demo"}});
    EXPECT_EQ(agreed.message(),
              "model: rank 2 (stage 2 of 2, host host2) has 'other', rank 0 (the coordinator, host "
              "host0) has 'demo'; accepted: the same in all processes");
  });
}

TEST(Hosts, AFailureOfAStageReachesAllWithItsName) {
  run_ranks(3, named, [](int32_t rank, Result<std::unique_ptr<Hosts>> joined) {
    ASSERT_TRUE(joined.ok());
    Hosts& hosts = **joined;
    if (rank > 0) {
      hosts.report(rank == 2 ? Result<Bytes>(Status(StatusCode::kNotFound, "no such file"))
                             : Result<Bytes>(Bytes()));
      EXPECT_NE(hosts.take_notice().status().message().find("no such file"), std::string::npos);
      return;
    }
    const auto reports = hosts.gather();
    EXPECT_EQ(reports.status().message(), "rank 2 (stage 2 of 2, host host2): no such file");
    hosts.end(reports.status());
  });
}

// All processes report the same error and none shows a secret, even if one has no secret.
TEST(Hosts, WhoKnowsAnotherSecretStaysOut) {
  const std::pair<const char*, const char*> cases[] = {
      {"the secret", "another"}, {"", "another"}, {"the secret", ""}};
  for (const auto& [ours, others] : cases) {
    const std::string own = ours;
    const std::string other = others;
    const auto options = [&own, &other](int32_t rank) {
      HostsOptions made = named(rank);
      made.secret = rank == 1 ? other : own;
      return made;
    };
    run_ranks(3, options, [](int32_t rank, Result<std::unique_ptr<Hosts>> joined) {
      ASSERT_FALSE(joined.ok()) << rank;
      EXPECT_EQ(
          joined.status().message(),
          "secret: found different ones on rank 1 (stage 1 of 2, host host1) and on rank 0 (the "
          "coordinator, host host0); accepted: a --secret-file with the same content on every "
          "host");
    });
  }
}

TEST(Hosts, AFactThatOneSideLacksIsNamed) {
  for (const int32_t lacks : {0, 2}) {
    run_ranks(3, named, [lacks](int32_t rank, Result<std::unique_ptr<Hosts>> joined) {
      ASSERT_TRUE(joined.ok());
      HostFacts facts = {{"a", "1"}, {"c", "3"}};
      if (rank != lacks) facts.insert(facts.begin() + 1, {"b", "2"});
      const Status agreed = (*joined)->agree(facts);
      const std::string who = lacks == 0 ? "rank 1 (stage 1 of 2, host host1) has '2'"
                                         : "rank 2 (stage 2 of 2, host host2) has none";
      EXPECT_TRUE(agreed.message().starts_with("b: " + who)) << agreed.message();
    });
  }
}

}  // namespace
}  // namespace forerun
