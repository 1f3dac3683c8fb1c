// Fuzzes all readers of messages from other processes. An accepted message must be writable again
// and, if it passes the checks, must not refer to data outside of itself.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hosts/file_frames.h"
#include "hosts/frame_kind.h"
#include "hosts/host_file.h"
#include "hosts/launch_frames.h"
#include "hosts/stage_message_bytes.h"
#include "hosts/step_frames.h"
#include "hosts/step_tasks.h"
#include "wire/frame.h"

namespace forerun {
namespace {

constexpr int64_t kBlocks = 12;
constexpr int32_t kVocab = 60;

void read_step(WireReader& from, std::span<const std::byte> bytes) {
  StageMessage message;
  read_stage_message(from, message);
  if (!from.finish().ok()) return;
  Bytes again;
  WireWriter to(&again);
  write_stage_message(message, to);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  if (!check_stage_message(message, kBlocks).ok()) return;
  Step step;
  message.view(step);
  int64_t sum = 0;
  for (const StepRow& row : step.rows) {
    const StepSequence& sequence = step.sequences[static_cast<size_t>(row.sequence_idx)];
    for (int32_t slot = 0; slot < row.boundary; ++slot) {
      sum += sequence.block_table[slot / kKvBlockTokens];
    }
  }
  if (sum < 0) std::abort();
  message.drop_rows(std::vector<int32_t>{0, 2});
}

void read_rows(WireReader& from) {
  StepTasks tasks;
  tasks.read(from);
  if (!from.finish().ok() || !tasks.check(kVocab).ok()) return;
  for (const RowTask& task : tasks.tasks()) {
    if (task.context.params == nullptr || task.result == nullptr) std::abort();
    if (needs_history(*task.context.params) && task.context.history == nullptr) std::abort();
  }
  Bytes answers;
  WireWriter to(&answers);
  write_answers(tasks.tasks(), tasks.rejections(), to);
  WireReader back(answers);
  if (!read_answers(back, tasks.tasks(), tasks.rejections()).ok()) std::abort();
}

void read_back(WireReader& from) {
  std::vector<RowResult> results(2);
  std::vector<RowTask> tasks(2);
  for (size_t idx = 0; idx < tasks.size(); ++idx) tasks[idx].result = &results[idx];
  WorkResult verified;
  std::vector<RejectionTask> rejections(1);
  rejections[0].result = &verified;
  (void)read_answers(from, tasks, rejections);
}

// An accepted message is written as the same bytes.
template <class T>
void read_whole(std::span<const std::byte> bytes) {
  T value;
  if (!from_bytes("value", bytes, value).ok()) return;
  const Bytes again = to_bytes(value);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

// A manifest and ranges that pass the checks stay within the manifest's files.
void read_manifest(std::span<const std::byte> bytes) {
  std::pair<FileManifest, std::vector<ManifestRange>> sent;
  if (!from_bytes("sent", bytes, sent).ok()) return;
  const auto& [manifest, ranges] = sent;
  if (!check_manifest(manifest).ok() || manifest_key(manifest).size() != 2 * kSha256Bytes) return;
  for (const ManifestFile& file : manifest.files) {
    if (file.name.find('/') != std::string::npos || file.name.starts_with("..")) std::abort();
    if (file.chunks() > 0) (void)file.digest(file.chunks() - 1);
  }
  if (!check_ranges(manifest, ranges).ok()) return;
  for (const ChunkId& id : chunks_of(ranges)) {
    if (!check_chunk(manifest, id).ok()) std::abort();
    (void)describe(manifest, id);
  }
}

// An accepted host file must give the same hosts when each host's line() is read again.
void read_host_file(std::string_view text) {
  const auto hosts = parse_host_file(text, "hosts");
  if (!hosts.ok()) return;
  std::string again;
  for (const HostAddress& host : *hosts) again += host.line();
  const auto same = parse_host_file(again, "again");
  if (!same.ok() || *same != *hosts) std::abort();
  if (again.find_first_of("$;|&`'\"\\<>(){}*?!,") != std::string::npos) std::abort();
}

}  // namespace
}  // namespace forerun

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace forerun;
  const auto all = std::as_bytes(std::span(data, size));
  (void)read_frame(all, kLastFrameKind);
  if (all.empty()) return 0;
  const auto bytes = all.subspan(1);
  WireReader from(bytes);
  switch (data[0] % 7) {
    case 0:
      read_step(from, bytes);
      break;
    case 1:
      read_rows(from);
      break;
    case 2:
      read_back(from);
      break;
    case 3:
      read_whole<std::vector<IssuedRow>>(bytes);
      break;
    case 4:
      read_host_file({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      break;
    case 5:
      read_manifest(bytes);
      read_whole<ChunkAsk>(bytes);
      read_whole<ChunkAnswer>(bytes);
      break;
    default:
      read_whole<Greeting>(bytes);
      read_whole<GreetingAnswer>(bytes);
      read_whole<Outcome>(bytes);
      read_whole<Loss>(bytes);
      break;
  }
  return 0;
}
