#include "text_input.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "text/utf8.h"

namespace forerun::app {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 16;

}  // namespace

Result<std::string> read_text(const std::string& flag, const std::string& path) {
  const bool is_stdin = path == "-";
  const std::string name = is_stdin ? "standard input" : "'" + path + "'";
  const auto refused = [&](StatusCode code, const std::string& why) {
    return Status(code, flag + ": " + name + " " + why);
  };
  const auto unreadable = [&](int error) {
    return refused(StatusCode::kNotFound, "cannot be read: " + std::string(std::strerror(error)) +
                                              "; accepted: a text file, or - for standard input");
  };
  std::error_code ignored;
  // Opening a directory succeeds, but reading it fails.
  if (!is_stdin && std::filesystem::is_directory(path, ignored)) return unreadable(EISDIR);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(
      is_stdin ? nullptr : std::fopen(path.c_str(), "rb"),
      [](std::FILE* file) { return file == nullptr ? 0 : std::fclose(file); });
  std::FILE* file = is_stdin ? stdin : opened.get();
  if (file == nullptr) return unreadable(errno);
  std::string text;
  while (true) {
    const size_t before = text.size();
    text.resize(before + kChunkBytes);
    const size_t got = std::fread(text.data() + before, 1, kChunkBytes, file);
    text.resize(before + got);
    if (text.size() > kMaxInputBytes) {
      return refused(StatusCode::kInvalidArgument, "holds more than " +
                                                       std::to_string(kMaxInputBytes >> 20) +
                                                       " MiB; accepted: shorter texts");
    }
    if (got == kChunkBytes) continue;
    if (std::ferror(file) != 0) return unreadable(errno);
    return text;
  }
}

Status check_utf8(const std::string& what, std::string_view text) {
  const size_t good = text::well_formed_prefix(text);
  if (good == text.size()) return Status();
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02x", static_cast<unsigned char>(text[good]));
  return Status(StatusCode::kInvalidArgument, what + ": found byte " + byte + " at offset " +
                                                  std::to_string(good) +
                                                  ", which is not UTF-8; accepted: UTF-8 text");
}

}  // namespace forerun::app
