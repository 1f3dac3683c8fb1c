#include "convert/output_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/mapped_file.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSideFiles[] = {
    "generation_config.json", "tokenizer.json",      "tokenizer_config.json",
    "tokenizer.model",        "vocab.json",          "merges.txt",
    "added_tokens.json",      "chat_template.jinja", "special_tokens_map.json",
    "chat_template.json"};

std::string in_units(uint64_t bytes) {
  char text[32];
  const double size = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) {
    std::snprintf(text, sizeof text, "%.1f GB", size / 1e9);
  } else {
    std::snprintf(text, sizeof text, "%.1f MB", size / 1e6);
  }
  return text;
}

bool is_own_file(const std::string& name) {
  return is_side_file(name) || name == "config.json" || name == "model.safetensors.index.json" ||
         (name.starts_with("model") && name.ends_with(".safetensors")) ||
         name == "additional_chat_templates";
}

// Fails if the directory holds a file that no conversion writes.
Status check_contents(const fs::path& dir) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    if (is_own_file(name)) continue;
    return Status(StatusCode::kInvalidArgument,
                  dir.string() + ": found " + name +
                      " in it; accepted: a directory with nothing but the files of a checkpoint, "
                      "which is replaced, or another name");
  }
  if (error) return Status(StatusCode::kInvalidArgument, dir.string() + ": " + error.message());
  return {};
}

Status check_replaceable(const fs::path& path, bool is_directory) {
  std::error_code error;
  const bool found_directory = fs::is_directory(path, error);
  if (found_directory == is_directory && (is_directory || fs::is_regular_file(path, error))) {
    return is_directory ? check_contents(path) : Status();
  }
  return Status(StatusCode::kInvalidArgument,
                path.string() + ": found " +
                    (found_directory                    ? "a directory"
                     : fs::is_regular_file(path, error) ? "a file"
                                                        : "neither a file nor a directory") +
                    "; accepted: another name (OUT.gguf is a file, other names are directories)");
}

bool is_same(const fs::path& one, const fs::path& other) {
  std::error_code error;
  return fs::equivalent(one, other, error) && !error;
}

// Returns whether `file`, with symbolic links resolved, lies in the directory `dir`.
bool lies_in(const fs::path& file, const fs::path& dir) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  return !error && is_same(real.parent_path(), dir);
}

Status refuse_input(const Checkpoint& input, const fs::path& path) {
  std::vector<fs::path> files;
  std::error_code error;
  if (input.gguf() != nullptr) {
    for (const MappedFile& file : input.gguf()->files()) files.push_back(file.path());
  } else {
    for (const auto& entry : fs::directory_iterator(input.path(), error)) files.push_back(entry);
  }
  bool is_input = is_same(input.path(), path);
  for (const fs::path& file : files) is_input = is_input || is_same(file, path);
  if (!is_input && std::none_of(files.begin(), files.end(),
                                [&](const fs::path& file) { return lies_in(file, path); })) {
    return {};
  }
  return Status(StatusCode::kInvalidArgument, path.string() + ": found " +
                                                  (is_input ? "the input" : "files of the input") +
                                                  "; accepted: another name for the output");
}

// Renames the directory `part` to `out`, and removes the previous `out`.
int replace_directory(const fs::path& part, const fs::path& out) {
  std::error_code error;
  if (::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, out.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(part, error);
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // Handles file systems that cannot exchange names, such as NFS.
  fs::path aside = out;
  aside += ".old";
  if (::rename(out.c_str(), aside.c_str()) != 0) return errno;
  if (::rename(part.c_str(), out.c_str()) != 0) {
    const int failure = errno;
    ::rename(aside.c_str(), out.c_str());
    return failure;
  }
  fs::remove_all(aside, error);
  return 0;
}

}  // namespace

bool is_side_file(std::string_view name) {
  return std::find(std::begin(kSideFiles), std::end(kSideFiles), name) != std::end(kSideFiles);
}

Result<std::string> read_side_file(const fs::path& path) {
  FORERUN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const auto* const text = reinterpret_cast<const char*>(file.bytes().data());
  return std::string(std::string_view(text, file.bytes().size()));
}

Result<OutputFiles> OutputFiles::create(const Checkpoint& input, const fs::path& out,
                                        bool is_directory, bool replace, uint64_t needed_bytes) {
  OutputFiles files;
  files.out_ = out.has_filename() ? out : out.parent_path();  // without a trailing slash
  files.part_ = files.out_;
  files.part_ += ".part";
  files.is_directory_ = is_directory;
  files.replace_ = replace;
  files.needed_bytes_ = needed_bytes;
  FORERUN_RETURN_IF_ERROR(files.check_names(input));
  std::error_code error;
  const fs::path parent = files.out_.has_parent_path() ? files.out_.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, error)) {
    return Status(StatusCode::kNotFound,
                  parent.string() + ": no such directory; accepted: a name in one that is there");
  }
  FORERUN_RETURN_IF_ERROR(files.remove_old_part());
  const fs::space_info room = fs::space(parent, error);
  if (!error && room.available < needed_bytes) {
    return Status(StatusCode::kResourceExhausted,
                  files.out_.string() + ": needs " + in_units(needed_bytes) + "; found " +
                      in_units(room.available) +
                      " free on its file system; accepted: a name where there is room, or a "
                      "smaller format");
  }
  FORERUN_RETURN_IF_ERROR(files.create_part());
  return files;
}

Status OutputFiles::check_names(const Checkpoint& input) const {
  if (out_.filename() == "." || out_.filename() == "..") {
    return Status(StatusCode::kInvalidArgument,
                  out_.string() + ": found " + out_.filename().string() +
                      " as the name; accepted: a name such as ../NAME");
  }
  for (const fs::path& path : {out_, part_}) FORERUN_RETURN_IF_ERROR(refuse_input(input, path));
  std::error_code error;
  if (!fs::exists(fs::symlink_status(out_, error))) return {};
  if (!replace_) {
    return Status(StatusCode::kInvalidArgument,
                  out_.string() +
                      ": found an output that is there already; accepted: another name, or "
                      "--force to replace it");
  }
  return check_replaceable(out_, is_directory_);
}

Status OutputFiles::remove_old_part() const {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(part_, error))) return {};
  FORERUN_RETURN_IF_ERROR(check_replaceable(part_, is_directory_));
  const int old = ::open(part_.c_str(), O_RDONLY | O_CLOEXEC);
  const bool is_locked = old >= 0 && ::flock(old, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (old >= 0) ::close(old);
  if (is_locked) {
    return Status(StatusCode::kInvalidArgument,
                  part_.string() +
                      ": another conversion is writing this file; choose another name or wait "
                      "until it has ended");
  }
  fs::remove_all(part_, error);
  return error ? failed(part_, error.value()) : Status();
}

Status OutputFiles::create_part() {
  if (is_directory_) {
    if (::mkdir(part_.c_str(), 0777) != 0) return failed(part_, errno);
  } else {
    const int created = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (created < 0) return failed(part_, errno);
    ::close(created);
  }
  is_open_ = true;
  // A file system without locks leaves the directory unlocked.
  lock_ = ::open(part_.c_str(), O_RDONLY | O_CLOEXEC);
  if (lock_ >= 0) static_cast<void>(::flock(lock_, LOCK_EX | LOCK_NB));
  return {};
}

OutputFiles::OutputFiles(OutputFiles&& other) noexcept
    : out_(std::move(other.out_)),
      part_(std::move(other.part_)),
      is_directory_(other.is_directory_),
      replace_(other.replace_),
      is_open_(std::exchange(other.is_open_, false)),
      lock_(std::exchange(other.lock_, -1)),
      needed_bytes_(other.needed_bytes_),
      files_(std::exchange(other.files_, {})) {}

OutputFiles::~OutputFiles() {
  for (const File& file : files_) {
    if (file.descriptor >= 0) ::close(file.descriptor);
  }
  std::error_code error;
  if (is_open_) fs::remove_all(part_, error);
  if (lock_ >= 0) ::close(lock_);
}

Status OutputFiles::failed(const fs::path& path, int error) const {
  if (error == ENOSPC || error == EDQUOT) {
    return Status(StatusCode::kResourceExhausted,
                  path.string() + ": found no space left; accepted: a name where " +
                      in_units(needed_bytes_) + " are free, or a smaller format");
  }
  return Status(StatusCode::kInvalidArgument, path.string() + ": " + std::strerror(error));
}

Result<size_t> OutputFiles::add(std::string_view name) {
  File file;
  file.path = is_directory_ ? part_ / name : part_;
  std::error_code error;
  if (is_directory_) fs::create_directories(file.path.parent_path(), error);
  file.descriptor = ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file.descriptor < 0) return failed(file.path, errno);
  files_.push_back(std::move(file));
  return files_.size() - 1;
}

Status OutputFiles::write(size_t file_idx, uint64_t offset,
                          std::span<const std::byte> bytes) const {
  const File& file = files_[file_idx];
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(file.descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed(file.path, errno);
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status OutputFiles::write_text(std::string_view name, std::string_view text) {
  FORERUN_ASSIGN_OR_RETURN(const size_t file_idx, add(name));
  return write(file_idx, 0, std::as_bytes(std::span(text)));
}

Status OutputFiles::sync() {
  for (File& file : files_) {
    if (::fdatasync(file.descriptor) != 0 && errno != EINVAL) return failed(file.path, errno);
    if (::close(std::exchange(file.descriptor, -1)) != 0) return failed(file.path, errno);
  }
  return {};
}

Status OutputFiles::commit() {
  std::error_code error;
  const bool replaces_directory = is_directory_ && replace_ && fs::exists(out_, error);
  const int failure = replaces_directory                           ? replace_directory(part_, out_)
                      : ::rename(part_.c_str(), out_.c_str()) == 0 ? 0
                                                                   : errno;
  if (failure != 0) return failed(out_, failure);
  is_open_ = false;
  return {};
}

}  // namespace forerun
