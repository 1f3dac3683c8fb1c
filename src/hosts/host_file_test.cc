#include "hosts/host_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace forerun {
namespace {

std::vector<HostAddress> hosts_of(const std::string& text) {
  const auto hosts = parse_host_file(text, "f");
  EXPECT_TRUE(hosts.ok()) << hosts.status().message();
  return hosts.ok() ? *hosts : std::vector<HostAddress>();
}

TEST(HostFile, NamesAHostALine) {
  const std::vector<HostAddress> hosts =
      hosts_of("# the lab\nhead\n\n node-1.lab \r\nnode_2  # slow\n10.0.0.3 // also\nfd00::1\n::1");
  std::vector<std::string> names;
  for (const HostAddress& host : hosts) {
    names.push_back(host.name);
    EXPECT_EQ(host.user, "");
    EXPECT_EQ(host.port, 0);
    EXPECT_EQ(host.is_ipv6(), names.size() > 4);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"head", "node-1.lab", "node_2", "10.0.0.3", "fd00::1",
                                             "::1"}));
}

// Spellings that OpenMPI 4.1 accepts.
TEST(HostFile, TakesWhatOpenMpiTakes) {
  EXPECT_EQ(hosts_of("a slots=2 max_slots=4\nb count = 1\nc\tcpu=1 max-slots=1"),
            (std::vector<HostAddress>{{"a", "", 0}, {"a", "", 0}, {"b", "", 0}, {"c", "", 0}}));
  EXPECT_EQ(
      hosts_of("bob@b port=2222\nbob@fd00::2 slots=1\nc username=eve\nd user-name=_x1 port=22"),
      (std::vector<HostAddress>{
          {"b", "bob", 2222}, {"fd00::2", "bob", 0}, {"c", "eve", 0}, {"d", "_x1", 22}}));
}

TEST(HostFile, GivesLinesForOneProcess) {
  EXPECT_EQ((HostAddress{"b", "", 0}).line(), "b slots=1\n");
  EXPECT_EQ((HostAddress{"fd00::2", "bob", 2222}).line(),
            "fd00::2 slots=1 username=bob port=2222\n");
}

// Names that a shell, ssh or mpirun would read as something else.
TEST(HostFile, RefusesWhatIsNoNameByItsLine) {
  for (const std::string bad :
       {"-oProxyCommand=x", "a;b", "$(x)", "a,b", "../x", "h\xc3\xb6st", "a'b", "*", "a:2222",
        "[fd00::1]", "@a", "bob@", "-l@a", "a@b@c", "$x@a", ":", "+n0", "^a", "fd00::1%eth0"}) {
    const auto hosts = parse_host_file("head\n" + bad + "\n", "hosts.txt");
    EXPECT_EQ(hosts.status().code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_TRUE(hosts.status().message().starts_with("hosts.txt, line 2: found '"))
        << hosts.status().message();
  }
  EXPECT_FALSE(parse_host_file("head\n" + std::string(254, 'a'), "f").ok());
}

TEST(HostFile, RefusesFieldsByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"a b", "found 'b'; accepted: a host's name or address, followed by any of slots="},
      {"a slots", "found 'slots'; accepted: a host's name or address, followed by any of slots="},
      {"a slots=", "found 'slots='; accepted: a number from 1 to 1024"},
      {"a slots=0", "found 'slots=0'; accepted: a number from 1 to 1024"},
      {"a slots=2x", "found 'slots=2x'"},
      {"a slots=-1", "found 'slots=-1'"},
      {"a slots=99999999999", "found 'slots=99999999999'"},
      {"a port=65536", "found 'port=65536'; accepted: a number from 1 to 65535"},
      {"a username=-x", "found 'username=-x'; accepted: a user's name"},
      {"a slots=3 slots=2", "found 'slots=2'; accepted: each field once"},
      {"a cpus=3 slots=2", "found 'slots=2'; accepted: each field once"},
      {"a bogus=2", "found 'bogus=2'; accepted: slots=, max_slots=, port= and username="},
      {"a slots=3 max_slots=2",
       "found slots=3 and max_slots=2; accepted: max_slots of at least slots"}};
  for (const auto& [line, message] : cases) {
    const auto hosts = parse_host_file(std::string("head\n") + line, "f");
    ASSERT_FALSE(hosts.ok()) << line;
    EXPECT_TRUE(hosts.status().message().starts_with(std::string("f, line 2: ") + message))
        << hosts.status().message();
  }
}

TEST(HostFile, RefusesOneNameWithTwoUsers) {
  EXPECT_NE(parse_host_file("bob@a\nb\neve@a", "f").status().message().find("f, line 3: found 'a'"),
            std::string::npos);
  EXPECT_TRUE(parse_host_file("bob@a\nb\nbob@a", "f").ok());
}

TEST(HostFile, RefusesTooFewAndTooMany) {
  EXPECT_NE(parse_host_file("head", "f").status().message().find("found 1 hosts"),
            std::string::npos);
  EXPECT_TRUE(parse_host_file("head slots=2", "f").ok());
  EXPECT_FALSE(parse_host_file("", "f").ok());
  EXPECT_TRUE(parse_host_file("a slots=1024", "f").ok());
  EXPECT_FALSE(parse_host_file("a slots=1024\nb", "f").ok());
}

}  // namespace
}  // namespace forerun
