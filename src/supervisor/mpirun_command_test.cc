#include "supervisor/mpirun_command.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace forerun {
namespace {

std::string text_of(const MpirunOptions& options) {
  std::string text;
  for (const std::string& part : mpirun_command(options)) text += part + " ";
  return text;
}

MpirunOptions over(const std::vector<std::string>& hosts) {
  MpirunOptions options;
  options.hosts = hosts;
  options.process = {"/bin/forerun"};
  return options;
}

TEST(MpirunCommandParts, NameHostsByFilesWhereTheyAreMoreThanNames) {
  MpirunOptions options = over({"a", "fd00::1", "b"});
  options.host_files = {{"fd00::1", "/proc/7/fd/3"}};
  const std::string text = text_of(options);
  EXPECT_NE(text.find("-n 1 --host a /bin/forerun : -n 1 --hostfile /proc/7/fd/3 /bin/forerun : -n "
                      "1 --host b /bin/forerun"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("--gmca regx naive"), std::string::npos);
  EXPECT_EQ(text_of(over({"a", "b"})).find("regx"), std::string::npos);
}

TEST(MpirunCommandParts, HandTheInstructionSetOn) {
  const char* const before = std::getenv("FORERUN_ISA");
  const std::string kept = before == nullptr ? "" : before;
  setenv("FORERUN_ISA", "avx2", 1);
  EXPECT_NE(text_of(over({"a", "b"})).find("-x FORERUN_ISA -n 1 "), std::string::npos);
  unsetenv("FORERUN_ISA");
  EXPECT_EQ(text_of(over({"a", "b"})).find("FORERUN_ISA"), std::string::npos);
  if (before != nullptr) setenv("FORERUN_ISA", kept.c_str(), 1);
}

}  // namespace
}  // namespace forerun
