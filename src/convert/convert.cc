#include "convert/convert.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/gguf/ggml_types.h"
#include "checkpoint/gguf/gguf_split.h"
#include "checkpoint/gguf/gguf_writer.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/weight_files.h"
#include "convert/conversion_plan.h"
#include "convert/gguf_description.h"
#include "convert/output_files.h"

namespace forerun {
namespace {

constexpr int kMaxThreads = 16;

// The place of an output tensor.
struct Place {
  size_t file_idx;
  uint64_t offset;
};

uint32_t ggml_type_of(const OutputTensor& tensor) {
  return tensor.blocks != nullptr ? tensor.blocks->ggml_type : *ggml_type_of(tensor.dtype);
}

Status check_cancelled(const ConvertOptions& options) {
  if (!options.is_cancelled || !options.is_cancelled()) return {};
  return Status(StatusCode::kCancelled, "interrupted");
}

// A runner that encodes the parts of all jobs on several threads and writes them.
class JobRunner {
 public:
  // `places` holds, for each job, those of its outputs.
  JobRunner(const Checkpoint& input, const ConversionPlan& plan, const OutputFiles& files,
            std::vector<std::vector<Place>> places)
      : input_(input), plan_(plan), files_(files), places_(std::move(places)) {
    left_ = std::vector<std::atomic<int64_t>>(plan.jobs.size());
    for (size_t job_idx = 0; job_idx < plan.jobs.size(); ++job_idx) {
      const int64_t num_parts = plan.jobs[job_idx]->num_parts();
      left_[job_idx] = num_parts;
      for (int64_t part = 0; part < num_parts; ++part) parts_.emplace_back(job_idx, part);
    }
  }

  Status run(const ConvertOptions& options) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const int wanted = options.num_threads > 0 ? options.num_threads : std::max(1, cores);
    running_ = std::min(wanted, kMaxThreads);
    std::vector<std::jthread> threads;
    for (int i = running_; i > 0; --i) threads.emplace_back([this] { work(); });
    const auto total = static_cast<double>(std::max<uint64_t>(1, plan_.bytes()));
    std::unique_lock lock(mutex_);
    while (running_ > 0) {
      ended_.wait_for(lock, std::chrono::milliseconds(50));
      lock.unlock();
      if (options.on_progress) options.on_progress(static_cast<double>(written_) / total);
      Status stop = check_cancelled(options);
      lock.lock();
      if (!stop.ok()) fail(std::move(stop));
    }
    return status_;
  }

 private:
  // The caller must hold the mutex.
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
    stops_ = true;
  }

  void work() {
    for (size_t at = next_++; at < parts_.size() && !stops_; at = next_++) {
      Status done = write_part(parts_[at].first, parts_[at].second);
      if (done.ok()) continue;
      const std::lock_guard lock(mutex_);
      fail(std::move(done));
    }
    const std::lock_guard lock(mutex_);
    --running_;
    ended_.notify_all();
  }

  Status write_part(size_t job_idx, int64_t part) {
    const TensorJob& job = *plan_.jobs[job_idx];
    FORERUN_ASSIGN_OR_RETURN(const std::vector<EncodedPiece> pieces, job.encode(part));
    for (const EncodedPiece& piece : pieces) {
      const Place& place = places_[job_idx][piece.output_idx];
      FORERUN_RETURN_IF_ERROR(files_.write(
          place.file_idx, place.offset + static_cast<uint64_t>(piece.offset), piece.bytes));
      written_ += piece.bytes.size();
    }
    if (--left_[job_idx] > 0) return {};
    for (const RawTensor* const source : job.sources()) input_.release_pages(*source);
    return {};
  }

  const Checkpoint& input_;
  const ConversionPlan& plan_;
  const OutputFiles& files_;
  const std::vector<std::vector<Place>> places_;
  std::vector<std::pair<size_t, int64_t>> parts_;  // pairs of job and part
  std::vector<std::atomic<int64_t>> left_;         // unfinished parts of each job
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stops_ = false;
  std::atomic<uint64_t> written_ = 0;

  std::mutex mutex_;
  std::condition_variable ended_;
  Status status_;    // the first failure
  int running_ = 0;  // running threads
};

Result<OutputFiles> create_files(const Checkpoint& input, const std::filesystem::path& out,
                                 const ConvertOptions& options, uint64_t bytes) {
  return OutputFiles::create(input, out, !is_gguf_name(out), options.replace, bytes);
}

Status write_jobs(const Checkpoint& input, const ConversionPlan& plan, OutputFiles& files,
                  std::vector<std::vector<Place>> places, const ConvertOptions& options) {
  FORERUN_RETURN_IF_ERROR(JobRunner(input, plan, files, std::move(places)).run(options));
  const WeightFiles inputs(input, [](ModuleId) { return true; });
  FORERUN_RETURN_IF_ERROR(inputs.check());
  FORERUN_RETURN_IF_ERROR(files.sync());
  FORERUN_RETURN_IF_ERROR(check_cancelled(options));
  return files.commit();
}

Status write_gguf(const Checkpoint& input, const std::filesystem::path& out, ConversionPlan& plan,
                  const ConvertOptions& options) {
  GgufWriter writer;
  FORERUN_RETURN_IF_ERROR(describe_in_gguf(input, options.to, writer, plan.notes));
  for (const auto& job : plan.jobs) {
    const OutputTensor& tensor = job->outputs().front();
    writer.add_tensor(tensor.name, ggml_type_of(tensor), tensor.shape, tensor.bytes());
  }
  const std::string header = writer.header();
  FORERUN_ASSIGN_OR_RETURN(OutputFiles files,
                           create_files(input, out, options, header.size() + writer.data_bytes()));
  FORERUN_RETURN_IF_ERROR(files.write_text("", header));
  std::vector<std::vector<Place>> places;
  for (const uint64_t offset : writer.offsets()) places.push_back({{0, header.size() + offset}});
  return write_jobs(input, plan, files, std::move(places), options);
}

Status write_directory(const Checkpoint& input, const std::filesystem::path& out,
                       ConversionPlan& plan, const ConvertOptions& options) {
  FORERUN_ASSIGN_OR_RETURN(const auto texts, describe_in_directory(input, plan.directory));
  std::vector<SafetensorsTensor> tensors;
  for (const auto& job : plan.jobs) {
    for (const OutputTensor& tensor : job->outputs()) {
      tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
    }
  }
  const SafetensorsLayout layout = lay_out_safetensors(tensors, options.max_shard_bytes);
  uint64_t bytes = 0;
  for (const SafetensorsFile& file : layout.files) bytes += file.bytes;
  for (const auto& [name, text] : texts) bytes += text.size();
  FORERUN_ASSIGN_OR_RETURN(OutputFiles files, create_files(input, out, options, bytes));
  for (const SafetensorsFile& file : layout.files) {
    FORERUN_RETURN_IF_ERROR(files.write_text(file.name, file.header));
  }
  for (const auto& [name, text] : texts) FORERUN_RETURN_IF_ERROR(files.write_text(name, text));
  if (!layout.index.empty()) {
    FORERUN_RETURN_IF_ERROR(files.write_text("model.safetensors.index.json", layout.index));
  }
  std::vector<std::vector<Place>> places;
  size_t tensor_idx = 0;
  for (const auto& job : plan.jobs) {
    std::vector<Place>& of_job = places.emplace_back();
    for (size_t i = 0; i < job->outputs().size(); ++i, ++tensor_idx) {
      of_job.push_back({layout.file_of[tensor_idx], layout.offset_of[tensor_idx]});
    }
  }
  return write_jobs(input, plan, files, std::move(places), options);
}

}  // namespace

bool is_gguf_name(const std::filesystem::path& out) { return out.extension() == ".gguf"; }

Result<Conversion> convert_checkpoint(const Checkpoint& input, const std::filesystem::path& out,
                                      const ConvertOptions& options) {
  const bool is_gguf = is_gguf_name(out);
  if (const auto part = parse_gguf_part_name(out.filename().string())) {
    return Status(StatusCode::kInvalidArgument,
                  out.string() + ": found the name of part " + std::to_string(part->part) + " of " +
                      std::to_string(part->num_parts) +
                      "; accepted: another name, since a GGUF file is written whole "
                      "(llama-gguf-split splits it)");
  }
  FORERUN_ASSIGN_OR_RETURN(ConversionPlan plan, plan_conversion(input, is_gguf, options));
  FORERUN_RETURN_IF_ERROR(is_gguf ? write_gguf(input, out, plan, options)
                                  : write_directory(input, out, plan, options));
  return Conversion{plan.bytes(), std::move(plan.notes), plan.num_weights, plan.num_kept};
}

}  // namespace forerun
