#include "engine/load/model_transfer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/chunk_digests.h"
#include "checkpoint/opening_ranges.h"
#include "engine/load/cache_folders.h"
#include "engine/load/host_agreement.h"
#include "engine/load/progress_text.h"
#include "engine/load/stage_plan.h"
#include "engine/load/weight_agreement.h"
#include "model/held_tensors.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {

// The coordinator's description of the target for stages that lack it.
struct ModelOffer {
  bool is_needed = false;  // else nothing follows
  FileManifest manifest;
  std::string opened_file;  // that is opened, for a GGUF file; empty: the folder is
  std::vector<ManifestRange> opening;
  std::vector<int32_t> stage_layers;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<ModelOffer> auto& offer) {
  visit("is needed", offer.is_needed);
  if (!offer.is_needed) return;
  visit("manifest", offer.manifest);
  visit("opened file", offer.opened_file);
  visit("opening", offer.opening);
  visit("stage layers", offer.stage_layers);
}

namespace {

constexpr const char* kFolder = "chunk-digests";
constexpr const char* kMissing = "missing";
constexpr const char* kAlways = "always";
constexpr const char* kNever = "never";

bool lacks_model(const EngineOptions& options) {
  if (options.send_model != kMissing) return options.send_model == kAlways;
  return resolve_checkpoint(options.model).status().code() == StatusCode::kNotFound;
}

// Converts a checkpoint's ranges to ranges of the manifest.
Result<std::vector<ManifestRange>> in_manifest(const FileManifest& manifest,
                                               const std::vector<FileRange>& ranges) {
  std::map<std::string, uint32_t> places;
  for (const ManifestFile& file : manifest.files) {
    places.emplace(file.name, static_cast<uint32_t>(places.size()));
  }
  std::vector<ManifestRange> found;
  for (const FileRange& range : ranges) {
    const auto place = places.find(range.file.filename().string());
    if (place == places.end()) {
      return Status(StatusCode::kInternal,
                    range.file.string() + ": not among the files that are sent");
    }
    found.push_back({place->second, range.begin, range.end});
  }
  return found;
}

double seconds_since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

// Returns a function that reports the progress of a transfer; empty if the options have no
// on_progress.
FileSender::Progress progress_of(const EngineOptions& options) {
  if (!options.on_progress) return {};
  return [&options, begun = std::chrono::steady_clock::now()](uint64_t sent_bytes,
                                                              uint64_t all_bytes) {
    const double all = std::max(1.0, static_cast<double>(all_bytes));
    const double fraction = static_cast<double>(sent_bytes) / all;
    options.on_progress(describe_progress("sending target", fraction, all, seconds_since(begun)),
                        fraction);
  };
}

Result<FileManifest> make_manifest(const EngineOptions& options, const std::string& name,
                                   const std::vector<std::filesystem::path>& files) {
  FileManifest manifest;
  manifest.name = name;
  for (const std::filesystem::path& path : files) {
    DigestOptions how;
    how.folder = digest_folder(options, kFolder);
    how.threads = digest_threads(options);
    if (options.on_progress) {
      how.progress = [&, idx = manifest.files.size()](double fraction) {
        options.on_progress("preparing to send target", (static_cast<double>(idx) + fraction) /
                                                            static_cast<double>(files.size()));
      };
    }
    FORERUN_ASSIGN_OR_RETURN(const ChunkDigests made, digest_chunks(path, how));
    ManifestFile& file = manifest.files.emplace_back();
    file.name = path.filename().string();
    file.bytes = made.file_bytes;
    for (const Sha256& digest : made.chunks) {
      file.digests.insert(file.digests.end(), digest.begin(), digest.end());
    }
  }
  FORERUN_RETURN_IF_ERROR(check_manifest(manifest));
  return manifest;
}

// Writes the facts first, so that the coordinator can name another build whatever follows there.
Bytes write_report(bool lacks) {
  Bytes report;
  WireWriter to(&report);
  to("facts", build_facts());
  to("lacks the model", lacks);
  return report;
}

Result<bool> read_report(const Hosts& hosts, int32_t rank, const Bytes& report) {
  WireReader from(report);
  const auto facts = from.get<HostFacts>("facts");
  FORERUN_RETURN_IF_ERROR(from.status());
  FORERUN_RETURN_IF_ERROR(hosts.compare_facts(build_facts(), rank, facts));
  const auto lacks = from.get<bool>("lacks the model");
  FORERUN_RETURN_IF_ERROR(from.finish());
  return lacks;
}

}  // namespace

const std::vector<std::string>& send_model_names() {
  static const std::vector<std::string> names = {kMissing, kAlways, kNever};
  return names;
}

Status ModelTransfer::make_offer(const ModelsToLoad& models, const Placement& placement,
                                 Bytes& notice) {
  const EngineOptions& options = *models.options;
  const Checkpoint& target = models.of(Role::kTarget).opened->checkpoint;
  ModelOffer offer;
  offer.is_needed = true;
  FORERUN_ASSIGN_OR_RETURN(
      const std::vector<LayerRange> cut,
      plan_stages(target, models.of(Role::kTarget).weights, models.activation,
                  placement.target.on_gpus(), placement.target.num_stages(), models.stage_layers));
  for (const LayerRange& stage : cut) stage_layers_.push_back(stage.size());
  offer.stage_layers = stage_layers_;
  FORERUN_ASSIGN_OR_RETURN(std::vector<std::filesystem::path> files, side_files(target));
  std::vector<FileRange> opening = opening_ranges(target);
  for (const std::filesystem::path& file : files) {
    opening.push_back({file, 0, std::filesystem::file_size(file)});
  }
  for (std::filesystem::path& file : target.weight_files()) files.push_back(std::move(file));
  FORERUN_ASSIGN_OR_RETURN(offer.manifest, make_manifest(options, target.name(), files));
  FORERUN_ASSIGN_OR_RETURN(offer.opening, in_manifest(offer.manifest, opening));
  if (target.gguf() != nullptr) offer.opened_file = target.path().filename().string();
  notice = to_bytes(offer);
  FORERUN_ASSIGN_OR_RETURN(
      sender_, FileSender::open(files, std::move(offer.manifest), progress_of(options)));
  return {};
}

Result<std::unique_ptr<ModelTransfer>> ModelTransfer::offer(const ModelsToLoad& models,
                                                            const Placement& placement) {
  Hosts& hosts = *models.options->hosts;
  std::unique_ptr<ModelTransfer> transfer;
  const auto decide = [&](const std::vector<Bytes>& reports) -> Result<Bytes> {
    bool is_needed = false;
    for (size_t stage = 0; stage < reports.size(); ++stage) {
      FORERUN_ASSIGN_OR_RETURN(const bool lacks,
                               read_report(hosts, static_cast<int32_t>(stage) + 1, reports[stage]));
      is_needed = is_needed || lacks;
    }
    Bytes notice = to_bytes(ModelOffer());
    if (!is_needed) return notice;
    transfer.reset(new ModelTransfer(&hosts));
    FORERUN_RETURN_IF_ERROR(transfer->make_offer(models, placement, notice));
    return notice;
  };
  FORERUN_RETURN_IF_ERROR(hosts.settle(Bytes(), decide).status());
  if (transfer != nullptr) FORERUN_RETURN_IF_ERROR(transfer->settle({}));
  return transfer;
}

bool ModelTransfer::report(const EngineOptions& options) {
  const bool lacks = lacks_model(options);
  options.hosts->report(write_report(lacks));
  return lacks;
}

namespace {

Result<ReceivedFiles> open_copy(const EngineOptions& options, FileManifest manifest) {
  const std::string cache =
      options.model_cache.empty() ? user_cache_folder("models") : options.model_cache;
  if (cache.empty()) {
    return Status(
        StatusCode::kInvalidArgument,
        "copy of the model: found neither HOME nor XDG_CACHE_HOME; accepted: one of them, "
        "or a folder (--model-cache)");
  }
  return ReceivedFiles::open(cache, std::move(manifest));
}

}  // namespace

Result<std::unique_ptr<ModelTransfer>> ModelTransfer::accept(bool lacks_model,
                                                             EngineOptions& options) {
  Hosts& hosts = *options.hosts;
  FORERUN_ASSIGN_OR_RETURN(const Bytes notice, hosts.take_notice());
  ModelOffer offer;
  FORERUN_RETURN_IF_ERROR(from_bytes("offer", notice, offer));
  if (!offer.is_needed) return std::unique_ptr<ModelTransfer>();
  auto transfer = std::unique_ptr<ModelTransfer>(new ModelTransfer(&hosts));
  transfer->stage_layers_ = offer.stage_layers;
  const auto take = [&]() -> Status {
    if (!lacks_model) return {};
    FORERUN_RETURN_IF_ERROR(check_manifest(offer.manifest));
    FORERUN_ASSIGN_OR_RETURN(ReceivedFiles copy, open_copy(options, std::move(offer.manifest)));
    options.model = (copy.folder() / offer.opened_file).string();
    transfer->received_.emplace(std::move(copy));
    return fetch_files(hosts, *transfer->received_, offer.opening);
  };
  FORERUN_RETURN_IF_ERROR(transfer->settle(take()));
  return transfer;
}

Status ModelTransfer::settle(const Status& own) {
  const Result<Bytes> report = own.ok() ? Result<Bytes>(Bytes()) : own;
  const auto decide = [](const std::vector<Bytes>&) -> Result<Bytes> { return Bytes(); };
  const auto answer = [this](const Incoming& ask) { return sender_->answer(*hosts_, ask); };
  return hosts_->settle(report, decide, answer).status();
}

Status ModelTransfer::complete(const Checkpoint& target, const LayerRange& own) {
  const auto take = [&]() -> Status {
    if (!received_) return {};
    std::vector<FileRange> ranges;
    for (const ModuleTensor& each : held_tensors(target, {&own, 1})) {
      ranges.push_back(range_of(target, *each.tensor));
    }
    FORERUN_ASSIGN_OR_RETURN(const std::vector<ManifestRange> places,
                             in_manifest(received_->manifest(), ranges));
    return fetch_files(*hosts_, *received_, places);
  };
  FORERUN_RETURN_IF_ERROR(settle(take()));
  if (sender_ != nullptr && sender_->sent_bytes() > 0) {
    const uint64_t megabytes = std::max<uint64_t>(1, (sender_->sent_bytes() + 500'000) / 1'000'000);
    log_line(LogLevel::kInfo, "sent " + std::to_string(megabytes) +
                                  " MB of the model to hosts that lacked it in " +
                                  one_digit(seconds_since(begun_)) + " s");
  }
  sender_.reset();  // and its open files
  return {};
}

void ModelTransfer::doubt() {
  if (received_) received_->doubt();
}

}  // namespace forerun
