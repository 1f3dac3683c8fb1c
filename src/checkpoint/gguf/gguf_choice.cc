#include "checkpoint/gguf/gguf_choice.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/lower_case.h"
#include "checkpoint/gguf/gguf_split.h"

namespace forerun {
namespace {

constexpr std::string_view kFileEnding = ".gguf";
// unsloth's prefix of quantizations with different formats per layer.
constexpr std::string_view kDynamic = "ud";
// A value above the worst fit of gguf_choice.h.
constexpr int kNoFit = 5;

struct Model {
  std::string file;    // relative to the directory: "Q8_0/Model-Q8_0-00001-of-00002.gguf"
  std::string folder;  // in lower case: "q8_0"; "" in the directory itself
  std::string name;    // in lower case, without ending and part: "model-q8_0"
};

// Adds the models in `dir`, whose path relative to the user's directory is `folder`.
void add_models(const std::filesystem::path& dir, const std::filesystem::path& folder,
                std::vector<Model>& models) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir / folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code unreadable;
    if (!it->is_directory(unreadable)) files.push_back(it->path().filename().string());
  }
  std::sort(files.begin(), files.end());
  std::map<std::pair<std::string, uint32_t>, bool> seen;  // split models
  for (const std::string& file : files) {
    std::string name = lower_case(file);
    if (!name.ends_with(kFileEnding) || name.find("mmproj") != name.npos ||
        name.find("imatrix") != name.npos) {
      continue;
    }
    if (const auto part = parse_gguf_part_name(name)) {
      if (std::exchange(seen[{part->name, part->num_parts}], true)) continue;
      name = part->name;
    } else {
      name.resize(name.size() - kFileEnding.size());
    }
    models.push_back({(folder / file).string(), lower_case(folder.string()), std::move(name)});
  }
}

std::vector<Model> find_models(const std::filesystem::path& dir) {
  std::vector<Model> models;
  add_models(dir, "", models);
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code unreadable;
    const std::filesystem::path folder = it->path().filename();
    if (it->is_directory(unreadable) && !folder.string().starts_with('.')) {
      folders.push_back(folder);
    }
  }
  std::sort(folders.begin(), folders.end());
  for (const std::filesystem::path& folder : folders) add_models(dir, folder, models);
  return models;
}

bool is_boundary(std::string_view name, size_t at) {
  return at == name.size() || name[at] == '-' || name[at] == '.';
}

// Returns the word before the word of `name` that begins at `begin`: "ud" of "model-ud-q4_k_m".
std::string_view word_before(std::string_view name, size_t begin) {
  if (begin == 0) return "";
  name = name.substr(0, begin - 1);
  return name.substr(name.find_last_of("-.") + 1);
}

// Returns 1 to 4 as in gguf_choice.h, or kNoFit. Both arguments are in lower case.
int fit_of_name(std::string_view name, std::string_view quantization) {
  int best = kNoFit;
  for (size_t at = name.find(quantization); at != name.npos; at = name.find(quantization, at + 1)) {
    const size_t end = at + quantization.size();
    if ((at == 0 || is_boundary(name, at - 1)) && is_boundary(name, end)) {
      const bool is_dynamic = word_before(name, at) == kDynamic;
      best = std::min(best, end != name.size() ? 3 : is_dynamic ? 2 : 1);
    } else if (end == name.size() && name[at - 1] == '_') {
      best = std::min(best, 4);
    }
  }
  return best;
}

int fit_of(const Model& model, std::string_view quantization) {
  const int fit = fit_of_name(model.name, quantization);
  // The folder may be "Model-Q8_0/", or "Q8_0/" with files of any name.
  return model.folder.empty() ? fit : std::min(fit, fit_of_name(model.folder, quantization));
}

std::string list_of_files(const std::vector<Model>& models) {
  std::string list;
  for (const Model& model : models) list += (list.empty() ? "" : ", ") + model.file;
  return list;
}

}  // namespace

Result<std::filesystem::path> choose_gguf(const std::filesystem::path& dir,
                                          std::string_view quantization) {
  std::error_code error;
  if (quantization.empty() && std::filesystem::exists(dir / "config.json", error)) return dir;
  const std::vector<Model> models = find_models(dir);
  if (quantization.empty() && models.empty()) return dir;
  const std::string wanted = lower_case(std::string(quantization));
  int best = kNoFit;
  std::vector<Model> fitting;
  for (const Model& model : models) {
    const int fit = wanted.empty() ? 1 : fit_of(model, wanted);
    if (fit < best) fitting.clear();
    best = std::min(best, fit);
    if (fit == best && fit != kNoFit) fitting.push_back(model);
  }
  if (fitting.size() == 1) return dir / fitting.front().file;
  if (fitting.empty()) {
    return Status(StatusCode::kNotFound,
                  dir.string() + ": found " +
                      (models.empty() ? "no GGUF file" : list_of_files(models)) +
                      "; accepted: a file or folder whose name ends with \"" +
                      std::string(quantization) + "\"");
  }
  return Status(
      StatusCode::kInvalidArgument,
      dir.string() + ": found several models" +
          (quantization.empty() ? ""
                                : " that \"" + std::string(quantization) + "\" fits equally well") +
          " (" + list_of_files(fitting) +
          "); accepted: one of these files, or the directory with a quantization that "
          "one of them alone has, e.g. \":Q4_K_M\"");
}

}  // namespace forerun
