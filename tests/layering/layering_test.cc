// Reads every #include of the tree and fails where a folder sees one it may not. The table is
// docs/architecture.md's.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace forerun {
namespace {

namespace fs = std::filesystem;

using Table = std::map<std::string, std::set<std::string>>;

// Folder -> folders that it may include, itself and base aside.
const Table& allowed() {
  static const Table table = [] {
    Table t;
    t["base"] = {};
    t["device"] = {};
    t["kernels"] = {"device"};
    t["kv"] = {"device", "kernels", "step"};
    t["model"] = {"device", "kernels", "kv", "step", "checkpoint"};
    t["exec"] = {"device", "kernels", "kv", "model", "step", "checkpoint", "sampling", "views"};
    t["hosts"] = {"device", "model", "step", "checkpoint", "sampling", "exec"};
    t["simulation"] = {"device",     "kernels",  "kv",   "model",      "step",
                       "checkpoint", "sampling", "exec", "strategies", "views"};
    t["engine"] = {"device",     "kernels",  "kv",    "model",  "exec",       "step",
                   "checkpoint", "sampling", "tree",  "drafts", "strategies", "simulation",
                   "planner",    "text",     "views", "hosts",  "grammar"};
    t["supervisor"] = {"engine", "hosts", "text", "strategies"};
    t["server"] = {"text"};
    t["step"] = {};
    t["text"] = {};
    t["grammar"] = {"text"};
    t["checkpoint"] = {};
    t["tree"] = {"step"};
    t["sampling"] = {"step", "kernels", "device"};
    t["views"] = {"step"};
    t["drafts"] = {"step", "tree"};
    t["strategies"] = {"step", "tree", "drafts", "views"};
    t["planner"] = {"step", "checkpoint", "model", "exec", "strategies", "simulation", "views"};
    return t;
  }();
  return table;
}

// What an #include line names, with its quotes or brackets; nothing for other lines.
std::optional<std::string> included(const std::string& line) {
  size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '#') return std::nullopt;
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string::npos || line.compare(at, 7, "include") != 0) return std::nullopt;
  const size_t begin = line.find_first_of("<\"", at + 7);
  if (begin == std::string::npos) return std::nullopt;
  const size_t end = line.find_first_of(">\"", begin + 1);
  if (end == std::string::npos) return std::nullopt;
  return line.substr(begin, end - begin + 1);
}

struct Breach {
  std::string file, include;
};

bool is_source(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".cuh";
}

std::vector<Breach> breaches_of(const std::string& folder, const std::string& name,
                                std::istream& text) {
  std::vector<Breach> breaches;
  const bool cuda_file = name.find("cuda") != std::string::npos;
  for (std::string line; std::getline(text, line);) {
    const std::optional<std::string> quoted = included(line);
    if (!quoted) continue;
    const std::string include = quoted->substr(1, quoted->size() - 2);
    if (!cuda_file && include.find("cuda") != std::string::npos) {
      breaches.push_back({name, include + " (CUDA only in *cuda* files)"});
    }
    const std::string top = include.substr(0, include.find('/'));
    if (!allowed().contains(top) || include.find('/') == std::string::npos) continue;
    if (top == folder || top == "base" || allowed().at(folder).contains(top)) continue;
    breaches.push_back({name, include});
  }
  return breaches;
}

TEST(Layering, NoFolderIncludesWhatItMayNotSee) {
  const fs::path src = fs::path(FORERUN_SOURCE_DIR) / "src";
  int files = 0;
  for (const auto& folder : fs::directory_iterator(src)) {
    if (!folder.is_directory()) continue;
    const std::string name = folder.path().filename().string();
    ASSERT_TRUE(allowed().contains(name)) << "src/" << name << " is not in the layering table";
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
      if (!is_source(entry.path())) continue;
      // A unit test may reach for whatever it needs to set its stage.
      if (entry.path().stem().string().ends_with("_test")) continue;
      ++files;
      std::ifstream text(entry.path());
      for (const Breach& breach :
           breaches_of(name, fs::relative(entry.path(), src).string(), text)) {
        ADD_FAILURE() << "src/" << breach.file << " includes " << breach.include;
      }
    }
  }
  EXPECT_GT(files, 20);
}

TEST(Layering, PublicHeadersUseTheStandardLibraryOnly) {
  const fs::path include = fs::path(FORERUN_SOURCE_DIR) / "include" / "forerun";
  for (const auto& entry : fs::directory_iterator(include)) {
    std::ifstream text(entry.path());
    for (std::string line; std::getline(text, line);) {
      const std::optional<std::string> quoted = included(line);
      if (!quoted) continue;
      const std::string& name = *quoted;
      const bool own = name.starts_with("\"forerun/");
      const bool standard = name.front() == '<' && name.find('.') == std::string::npos &&
                            name.find('/') == std::string::npos;
      EXPECT_TRUE(own || standard) << entry.path() << " includes " << name;
    }
  }
}

TEST(Layering, APlantedBreachIsFound) {
  std::istringstream text("#include \"base/dtype.h\"\n#include \"engine/engine_loop.h\"\n");
  EXPECT_EQ(breaches_of("tree", "tree/x.h", text).size(), 1u);
  std::istringstream cuda("#include <cuda_runtime.h>\n");
  EXPECT_EQ(breaches_of("model", "model/decoder.h", cuda).size(), 1u);
}

}  // namespace
}  // namespace forerun
