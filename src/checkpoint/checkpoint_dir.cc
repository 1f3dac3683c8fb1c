// Resolves what a user typed into a checkpoint directory, with the local Hugging Face cache, whose
// layout is HUB/models--org--name/{refs/main, snapshots/COMMIT/files}.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace forerun {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::vector<std::filesystem::path> hub_dirs() {
  std::vector<std::filesystem::path> dirs;
  if (const auto dir = environment("HF_HUB_CACHE"); !dir.empty()) dirs.emplace_back(dir);
  if (const auto dir = environment("HF_HOME"); !dir.empty()) {
    dirs.push_back(std::filesystem::path(dir) / "hub");
  }
  if (const auto home = environment("HOME"); !home.empty()) {
    dirs.push_back(std::filesystem::path(home) / ".cache/huggingface/hub");
  }
  return dirs;
}

// "name" or "org/name" of the characters that the Hub allows, so that it is also safe in a path.
bool is_repository_name(std::string_view model) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '/';
  };
  return !model.empty() && std::all_of(model.begin(), model.end(), allowed) &&
         std::count(model.begin(), model.end(), '/') <= 1 && model.front() != '/' &&
         model.back() != '/' && model.front() != '.' && model.find("..") == model.npos &&
         model.find("/.") == model.npos;
}

}  // namespace

Result<std::filesystem::path> resolve_checkpoint_dir(std::string_view model) {
  std::error_code error;
  const std::filesystem::path path(model);
  if (!model.empty() && std::filesystem::exists(path, error)) return path;
  const std::string quoted = "model \"" + std::string(model) + "\"";
  if (!is_repository_name(model)) {
    return Status(StatusCode::kNotFound,
                  quoted +
                      ": no such directory; accepted: a checkpoint directory, or org/name of "
                      "the local Hugging Face cache");
  }
  std::string folder = "models--";
  for (const char c : model) folder += c == '/' ? std::string("--") : std::string(1, c);
  std::string searched;
  for (const std::filesystem::path& hub : hub_dirs()) {
    searched += (searched.empty() ? "" : ", ") + hub.string();
    const std::filesystem::path repository = hub / folder;
    if (!std::filesystem::is_directory(repository, error)) continue;
    std::ifstream ref(repository / "refs/main");
    std::string commit;
    if (!(ref >> commit) || commit.find('/') != commit.npos || commit.starts_with('.')) {
      return Status(StatusCode::kCorrupt, (repository / "refs/main").string() +
                                              ": found no commit; accepted: the name "
                                              "of a directory under snapshots");
    }
    const std::filesystem::path snapshot = repository / "snapshots" / commit;
    if (!std::filesystem::is_directory(snapshot, error)) {
      return Status(StatusCode::kNotFound, snapshot.string() +
                                               ": no such directory, though refs/main names it "
                                               "(an interrupted download?)");
    }
    return snapshot;
  }
  return Status(StatusCode::kNotFound,
                quoted + ": no such directory, and not in the local Hugging Face cache (" +
                    (searched.empty() ? "none: HOME is not set" : searched) +
                    "); Forerun never downloads: hf download " + std::string(model));
}

}  // namespace forerun
