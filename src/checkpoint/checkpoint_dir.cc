// Resolves a user's argument to a checkpoint directory or a GGUF file, with the local Hugging Face
// cache, whose layout is HUB/models--org--name/{refs/BRANCH, snapshots/COMMIT/files}.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/lower_case.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/gguf_choice.h"

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

bool is_allowed(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '/';
}

// Returns whether `model` is "name" or "org/name" with the characters that the Hub allows, so that
// it is also safe in a path.
bool is_repository_name(std::string_view model) {
  return !model.empty() && std::all_of(model.begin(), model.end(), is_allowed) &&
         std::count(model.begin(), model.end(), '/') <= 1 && model.front() != '/' &&
         model.back() != '/' && model.front() != '.' && model.find("..") == model.npos &&
         model.find("/.") == model.npos;
}

// Returns whether `revision` is a branch, a tag or a commit with the same characters; it may also
// have slashes ("refs/pr/1").
bool is_revision(std::string_view revision) {
  return !revision.empty() && revision.front() != '/' && revision.back() != '/' &&
         revision.front() != '.' && revision.find("..") == revision.npos &&
         revision.find("/.") == revision.npos && revision.find("//") == revision.npos &&
         std::all_of(revision.begin(), revision.end(), is_allowed);
}

// Returns the directory of a revision in a repository of the cache.
Result<std::filesystem::path> snapshot_of(const std::filesystem::path& repository,
                                          const std::string& revision) {
  std::error_code error;
  // A full commit hash is the directory's name.
  if (const auto snapshot = repository / "snapshots" / revision;
      std::filesystem::is_directory(snapshot, error)) {
    return snapshot;
  }
  const std::filesystem::path name = repository / "refs" / revision;
  if (!std::filesystem::exists(name, error)) {
    return Status(StatusCode::kNotFound,
                  repository.string() + ": found no revision \"" + revision +
                      "\"; accepted: a branch, a tag or a whole commit that has been downloaded");
  }
  std::ifstream ref(name);
  std::string commit;
  if (!(ref >> commit) || commit.find('/') != commit.npos || commit.starts_with('.')) {
    return Status(StatusCode::kCorrupt, name.string() +
                                            ": found no commit; accepted: the name of a directory "
                                            "under snapshots");
  }
  const std::filesystem::path snapshot = repository / "snapshots" / commit;
  if (!std::filesystem::is_directory(snapshot, error)) {
    return Status(StatusCode::kNotFound,
                  snapshot.string() + ": no such directory, though refs/" + revision +
                      " names it (an interrupted download?); "
                      "accepted: a whole download, as hf download brings it");
  }
  return snapshot;
}

}  // namespace

namespace {

// Returns whether the argument means a file, not a repository.
bool names_gguf_file(std::string_view name) {
  return lower_case(std::filesystem::path(name).extension().string()) == ".gguf";
}

// Returns the arguments of `hf download` for the files of a quantization; the command compares
// names with case.
std::string include_patterns(std::string_view quantization) {
  std::string upper(quantization);
  for (char& c : upper) c = 'a' <= c && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  std::string patterns = " --include \"*" + upper + "*\"";
  if (upper != quantization) patterns += " \"*" + std::string(quantization) + "*\"";
  return patterns;
}

// Finds a directory or file, or a directory of the local Hugging Face cache. `quantization` only
// serves the suggested download command.
Result<std::filesystem::path> find_files(std::string_view model, std::string_view quantization) {
  std::error_code error;
  const std::filesystem::path path(model);
  if (!model.empty() && std::filesystem::exists(path, error)) return path;
  const std::string quoted = "model \"" + std::string(model) + "\"";
  if (std::filesystem::is_symlink(path, error)) {
    return Status(StatusCode::kNotFound, quoted + ": a link to \"" +
                                             std::filesystem::read_symlink(path, error).string() +
                                             "\", which does not exist; accepted: a link to a "
                                             "checkpoint directory or a GGUF file");
  }
  const size_t at = std::min(model.find('@'), model.size());
  const std::string_view repository_name = model.substr(0, at);
  const std::string revision = at == model.size() ? "main" : std::string(model.substr(at + 1));
  if (!is_repository_name(repository_name) || !is_revision(revision) ||
      names_gguf_file(repository_name)) {
    return Status(StatusCode::kNotFound,
                  quoted +
                      ": no such directory or file; accepted: a checkpoint directory, a GGUF file, "
                      "or org/name "
                      "or org/name@REVISION of the local Hugging Face cache");
  }
  std::string folder = "models--";
  for (const char c : repository_name) folder += c == '/' ? std::string("--") : std::string(1, c);
  std::string searched;
  for (const std::filesystem::path& hub : hub_dirs()) {
    searched += (searched.empty() ? "" : ", ") + hub.string();
    const std::filesystem::path repository = hub / folder;
    if (std::filesystem::is_directory(repository, error)) return snapshot_of(repository, revision);
  }
  return Status(StatusCode::kNotFound,
                quoted + ": no such directory, and not in the local Hugging Face cache (" +
                    (searched.empty() ? "none: HOME is not set" : searched) +
                    "); accepted: a checkpoint directory, a GGUF file, or a repository of that "
                    "cache; Forerun never downloads: hf download " +
                    std::string(repository_name) +
                    (at == model.size() ? "" : " --revision " + revision) +
                    (quantization.empty() ? "" : include_patterns(quantization)));
}

}  // namespace

Result<std::filesystem::path> resolve_checkpoint(std::string_view model) {
  std::error_code error;
  const std::filesystem::path typed(model);
  const size_t colon = model.rfind(':');
  const bool names_quantization = colon != std::string_view::npos &&
                                  model.find('/', colon) == std::string_view::npos &&
                                  !std::filesystem::exists(typed, error);
  const std::string_view quantization =
      names_quantization ? model.substr(colon + 1) : std::string_view();
  FORERUN_ASSIGN_OR_RETURN(
      const std::filesystem::path found,
      find_files(model.substr(0, names_quantization ? colon : model.size()), quantization));
  if (!std::filesystem::is_directory(found, error)) {
    if (!names_quantization) return found;
    return Status(
        StatusCode::kInvalidArgument,
        "model \"" + std::string(model) + "\": found a file before ':'; accepted: the file alone");
  }
  return choose_gguf(found, quantization);
}

}  // namespace forerun
