#include "planner/keyed_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>

namespace forerun {
namespace {

// Files of this format take some tens of KB at most.
constexpr std::uintmax_t kMaxFileBytes = 1 << 20;

// FNV-1a, for file names only: the key inside a file decides whether it applies.
uint64_t hash_of(const CostKey& key) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](const std::string& text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    hash = (hash ^ 0xffu) * 0x100000001b3u;
  };
  for (const auto& [name, value] : key) {
    add(name);
    add(value);
  }
  return hash;
}

}  // namespace

std::filesystem::path KeyedFolder::file_of(const CostKey& key) const {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "%016llx.json",
                static_cast<unsigned long long>(hash_of(key)));
  return folder_ / name.data();
}

Result<std::optional<std::string>> KeyedFolder::read(const CostKey& key) const {
  if (!enabled()) return std::optional<std::string>();
  const std::filesystem::path file = file_of(key);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::optional<std::string>();
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error || size > kMaxFileBytes) {
    return Status(StatusCode::kCorrupt,
                  file.string() + ": " +
                      (error ? error.message() : "found " + std::to_string(size) + " bytes"));
  }
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) return Status(StatusCode::kCorrupt, file.string() + ": cannot be read");
  return std::optional<std::string>(std::move(text));
}

Status KeyedFolder::write(const CostKey& key, const std::string& text) const {
  if (!enabled()) return Status();
  const std::filesystem::path file = file_of(key);
  std::string temporary;
  const auto failed = [&](const std::string& why) {
    if (!temporary.empty()) unlink(temporary.c_str());
    return Status(StatusCode::kNotFound, file.string() + ": " + why);
  };
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return failed(error.message());
  // A unique name, since other threads, processes and machines may write to the folder, too.
  temporary = file.string() + ".XXXXXX";
  const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) {
    temporary.clear();
    return failed("cannot be written");
  }
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(descriptor, text.data() + written, text.size() - written);
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  const bool closed = close(descriptor) == 0;
  if (written < text.size() || !closed) return failed("cannot be written");
  std::filesystem::rename(temporary, file, error);
  if (error) return failed(error.message());
  return Status();
}

}  // namespace forerun
