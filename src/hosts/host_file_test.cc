#include "hosts/host_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace forerun {
namespace {

TEST(HostFile, NamesAHostALine) {
  const auto hosts =
      parse_host_file("# the lab\nhead\n\n node-1.lab \r\nnode_2  # slow\n10.0.0.3\nfd00::1", "f");
  ASSERT_TRUE(hosts.ok()) << hosts.status().message();
  EXPECT_EQ(*hosts,
            (std::vector<std::string>{"head", "node-1.lab", "node_2", "10.0.0.3", "fd00::1"}));
}

// Whatever a shell, ssh or mpirun would read as something else.
TEST(HostFile, RefusesWhatIsNoNameByItsLine) {
  for (const std::string bad : {"-oProxyCommand=x", "a b", "a;b", "$(x)", "a,b", "../x",
                                "a slots=2", "h\xc3\xb6st", "a'b", "*"}) {
    const auto hosts = parse_host_file("head\n" + bad + "\n", "hosts.txt");
    EXPECT_EQ(hosts.status().code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(hosts.status().message().find("hosts.txt, line 2: found '" + bad), std::string::npos);
  }
  EXPECT_FALSE(parse_host_file("head\n" + std::string(254, 'a'), "f").ok());
  EXPECT_NE(parse_host_file("head", "f").status().message().find("found 1 hosts"),
            std::string::npos);
  EXPECT_FALSE(parse_host_file("", "f").ok());
}

}  // namespace
}  // namespace forerun
