#include "hosts/send_files.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/status_macros.h"
#include "hosts/file_frames.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {

Result<std::unique_ptr<FileSender>> FileSender::open(std::span<const std::filesystem::path> files,
                                                     FileManifest manifest, Progress progress) {
  auto sender =
      std::unique_ptr<FileSender>(new FileSender(std::move(manifest), std::move(progress)));
  for (const std::filesystem::path& file : files) {
    sender->files_.push_back(std::make_unique<OpenFile>(file));
    FORERUN_RETURN_IF_ERROR(sender->files_.back()->status());
  }
  return sender;
}

Status FileSender::check_unchanged(const ChunkId& id, std::span<const std::byte> content) const {
  const Sha256 digest = sha256(content);
  const auto expected = manifest_.files[id.file].digest(id.chunk);
  if (std::equal(digest.begin(), digest.end(), expected.begin())) return {};
  return Status(StatusCode::kCorrupt,
                files_[id.file]->path().string() +
                    ": found other bytes than when its digests were made (" +
                    describe(manifest_, id) +
                    "); accepted: a file that stays as it is until the launch is up");
}

void FileSender::tell_progress(size_t rank, uint64_t left_bytes, uint64_t chunk) {
  lacked_.resize(std::max(lacked_.size(), rank + 1));
  left_.resize(lacked_.size());
  // A stage that begins anew, with other ranges, lacks more than it did.
  if (left_bytes > left_[rank]) lacked_[rank] += left_bytes - left_[rank];
  left_[rank] = left_bytes - std::min(left_bytes, chunk);
  if (!progress_) return;
  const auto sum = [](const std::vector<uint64_t>& of) {
    return std::accumulate(of.begin(), of.end(), uint64_t{0});
  };
  const uint64_t all = sum(lacked_);
  progress_(all - std::min(all, sum(left_)), all);
}

Status FileSender::answer(Hosts& hosts, const Incoming& incoming) {
  ChunkAsk ask;
  FORERUN_RETURN_IF_ERROR(from_bytes("ask", incoming.payload(), ask));
  FORERUN_RETURN_IF_ERROR(
      check_chunk(manifest_, ask.id).with_context(hosts.describe(incoming.from)));
  const size_t size = chunk_bytes(manifest_.files[ask.id.file].bytes, ask.id.chunk);
  ChunkAnswer answer{ask.id, Bytes(size)};
  const auto offset = static_cast<int64_t>(ask.id.chunk * kFileChunkBytes);
  FORERUN_RETURN_IF_ERROR(files_[ask.id.file]->read(offset, answer.content));
  if (ask.again) FORERUN_RETURN_IF_ERROR(check_unchanged(ask.id, answer.content));
  Bytes frame = hosts.messenger().begin(FrameKind::kChunk);
  append_value(frame, answer);
  hosts.messenger().send(incoming.from, std::move(frame));
  sent_bytes_ += size;
  tell_progress(static_cast<size_t>(incoming.from), ask.left_bytes, size);
  return {};
}

namespace {

constexpr int kMaxTries = 3;

// The chunks that a stage has asked for and those that it will ask for.
class Fetch {
 public:
  Fetch(Hosts& hosts, ReceivedFiles& files, std::vector<ChunkId> missing)
      : hosts_(hosts), files_(files), missing_(std::move(missing)) {
    for (const ChunkId& id : missing_) left_bytes_ += bytes_of(id);
  }

  Status run() {
    while (next_ < missing_.size() || !tries_.empty()) {
      while (next_ < missing_.size() && tries_.size() < kMaxAsked) {
        const ChunkId& id = missing_[next_++];
        tries_[id] = 1;
        ask(id, false);
        left_bytes_ -= bytes_of(id);
      }
      FORERUN_ASSIGN_OR_RETURN(const Incoming incoming, hosts_.next());
      if (incoming.kind != FrameKind::kChunk || incoming.from != 0) continue;
      FORERUN_RETURN_IF_ERROR(take(incoming));
    }
    return {};
  }

 private:
  uint64_t bytes_of(const ChunkId& id) const {
    return chunk_bytes(files_.manifest().files[id.file].bytes, id.chunk);
  }

  void ask(const ChunkId& id, bool again) {
    Bytes frame = hosts_.messenger().begin(FrameKind::kChunkAsk);
    append_value(frame, ChunkAsk{id, again, left_bytes_});
    hosts_.messenger().send(0, std::move(frame));
  }

  Status take(const Incoming& incoming) {
    ChunkAnswer answer;
    FORERUN_RETURN_IF_ERROR(from_bytes("chunk", incoming.payload(), answer));
    const auto asked = tries_.find(answer.id);
    if (asked == tries_.end()) return {};  // one that nobody has asked for
    Status added = files_.add(answer.id, answer.content);
    if (added.code() == StatusCode::kCorrupt && asked->second < kMaxTries) {
      ++asked->second;
      ask(answer.id, true);
      return {};
    }
    tries_.erase(asked);
    return added;
  }

  Hosts& hosts_;
  ReceivedFiles& files_;
  const std::vector<ChunkId> missing_;
  size_t next_ = 0;
  std::map<ChunkId, int> tries_;  // of chunks that are asked for
  uint64_t left_bytes_ = 0;       // of chunks that are not
};

}  // namespace

Status fetch_files(Hosts& hosts, ReceivedFiles& files, std::span<const ManifestRange> ranges) {
  FORERUN_ASSIGN_OR_RETURN(std::vector<ChunkId> missing, files.find_missing(ranges));
  return Fetch(hosts, files, std::move(missing)).run();
}

}  // namespace forerun
