// Reads every #include of the tree and fails where a folder sees one that its README.md does not
// list after "May include:", or lists one that it does not use.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace forerun {
namespace {

namespace fs = std::filesystem;

const fs::path& root() {
  static const fs::path path = FORERUN_SOURCE_DIR;
  return path;
}

// Folder -> where it is: those of src, and the programs that use them.
const std::map<std::string, fs::path>& folders() {
  static const std::map<std::string, fs::path> found = [] {
    std::map<std::string, fs::path> f = {{"apps", root() / "apps"}, {"bench", root() / "bench"}};
    for (const auto& entry : fs::directory_iterator(root() / "src")) {
      if (entry.is_directory()) f[entry.path().filename().string()] = entry.path();
    }
    return f;
  }();
  return found;
}

// The names in backquotes between "May include:" and the next full stop.
std::set<std::string> listed_in(std::istream& readme) {
  std::ostringstream whole;
  whole << readme.rdbuf();
  const std::string text = whole.str();
  std::set<std::string> names;
  const size_t begin = text.find("May include:");
  if (begin == std::string::npos) return names;
  const size_t end = text.find('.', begin);
  for (size_t open = text.find('`', begin); open < end; open = text.find('`', open + 1)) {
    const size_t close = text.find('`', open + 1);
    if (close == std::string::npos) break;
    names.insert(text.substr(open + 1, close - open - 1));
    open = close;
  }
  return names;
}

// The folder that a header such as "exec/executor.h" belongs to; bench's own lie in folders of it.
std::optional<std::string> folder_of(const std::string& include) {
  const size_t slash = include.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::string top = include.substr(0, slash);
  if (folders().contains(top)) return top;
  if (fs::is_directory(root() / "bench" / top)) return "bench";
  return std::nullopt;
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

bool is_source(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".cuh" ||
         extension == ".inc";
}

// What one file includes: folders, and CUDA headers where the file is not CUDA code.
struct Includes {
  std::set<std::string> folders;
  std::vector<std::string> misplaced_cuda;
};

Includes includes_of(const std::string& name, std::istream& text) {
  Includes found;
  const bool cuda_file = name.find("cuda") != std::string::npos;
  for (std::string line; std::getline(text, line);) {
    const std::optional<std::string> quoted = included(line);
    if (!quoted) continue;
    const std::string include = quoted->substr(1, quoted->size() - 2);
    if (!cuda_file && include.find("cuda") != std::string::npos) {
      found.misplaced_cuda.push_back(include);
    }
    if (const auto folder = folder_of(include)) found.folders.insert(*folder);
  }
  return found;
}

TEST(Layering, FoldersIncludeWhatTheirReadmesList) {
  int files = 0;
  for (const auto& [folder, path] : folders()) {
    std::ifstream readme(path / "README.md");
    ASSERT_TRUE(readme) << path << " has no README.md, which says what it does and may include";
    const std::set<std::string> listed = listed_in(readme);
    std::set<std::string> used;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (!is_source(entry.path())) continue;
      // A unit test and its rig may reach for whatever they need.
      const std::string stem = entry.path().stem().string();
      if (stem.ends_with("_test") || stem.ends_with("_rig")) continue;
      ++files;
      const std::string name = fs::relative(entry.path(), root()).string();
      std::ifstream text(entry.path());
      const Includes includes = includes_of(name, text);
      for (const std::string& header : includes.misplaced_cuda) {
        ADD_FAILURE() << name << " includes " << header << ": CUDA only in *cuda* files";
      }
      for (const std::string& other : includes.folders) {
        if (other == folder) continue;
        used.insert(other);
        EXPECT_TRUE(listed.contains(other)) << name << " includes a header of " << other
                                            << ", which " << folder << "/README.md does not list";
      }
    }
    for (const std::string& other : listed) {
      EXPECT_TRUE(used.contains(other))
          << folder << "/README.md lists " << other << ", of which nothing is included";
    }
  }
  EXPECT_GT(files, 20);
}

// No folder can reach itself by includes: there is an order in which all of them point backwards.
TEST(Layering, IncludesMakeNoCircle) {
  std::map<std::string, std::set<std::string>> listed;
  for (const auto& [folder, path] : folders()) {
    std::ifstream readme(path / "README.md");
    listed[folder] = listed_in(readme);
  }
  for (bool removed = true; removed;) {
    removed = false;
    for (auto it = listed.begin(); it != listed.end();) {
      const bool is_free = std::none_of(it->second.begin(), it->second.end(),
                                        [&](const std::string& s) { return listed.contains(s); });
      removed = removed || is_free;
      it = is_free ? listed.erase(it) : std::next(it);
    }
  }
  for (const auto& [folder, others] : listed) ADD_FAILURE() << folder << " is part of a circle";
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

TEST(Layering, IncludesAndListsAreRead) {
  std::istringstream text("#include \"base/dtype.h\"\n  # include \"engine/loop/engine_loop.h\"\n");
  EXPECT_EQ(includes_of("tree/x.h", text).folders, (std::set<std::string>{"base", "engine"}));
  std::istringstream cuda("#include <cuda_runtime.h>\n");
  EXPECT_EQ(includes_of("model/decoder.h", cuda).misplaced_cuda.size(), 1u);
  std::istringstream readme("About `kv`.\n\nMay include: `base`, `step`,\n`text`. Not `model`.\n");
  EXPECT_EQ(listed_in(readme), (std::set<std::string>{"base", "step", "text"}));
}

}  // namespace
}  // namespace forerun
