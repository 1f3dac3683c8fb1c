// Measures rounds of plain decoding on a GPU for requests that are constrained by a JSON schema,
// biased or penalized, and for requests that are not: a Step of one row per request (or of a chain
// of guesses) with its sampling and the counting afterwards.
//
//   constrained_rounds_cuda MODEL_DIR TOKENIZER_JSON [--requests 1] [--rows 1] [--threads 16]
//   [--context 200]
//                      [--json FILE]
//
// Requests follow one reply in JSON, each from a different token on, so that masks are those of a
// real reply; the sampled tokens are ignored. "whole rows": as if devices could not edit logits.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/device_group.h"
#include "engine/submit/output_formats.h"
#include "exec/decoder_step_runner.h"
#include "model/cuda/load_decoder.h"
#include "text/tokenizer.h"

namespace forerun {
namespace {

constexpr int32_t kRoundsPerTurn = 24;  // rounds of a case before the next case's turn
constexpr int32_t kTurns = 5;
constexpr TokenId kEndToken = 128001;
constexpr int32_t kCounted = 500;  // number of tokens of a prompt and an output that are penalized

const char* const kSchema =
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,
"maximum":150},"tags":{"type":"array","items":{"type":"string","maxLength":30},"maxItems":5},"address":
{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}},"required":["street",
"city"],"additionalProperties":false}},"required":["name","age","tags","address"],
"additionalProperties":false})";
const char* const kReply =
    R"({"name": "Mary O'Neill", "age": 42, "tags": ["reader", "na\u00efve painter", "walks by the river"],)"
    R"( "address": {"street": "12 High Street, second floor, left", "city": "Köln"}})";

struct Arguments {
  std::string model;
  std::string tokenizer;
  std::string json;
  int32_t requests = 1;
  int32_t rows = 1;  // rows per request: its next token and guesses after it
  int32_t threads = 16;
  int32_t context = 200;
};

// A decoder that returns whole rows if their logits are edited, so that the host edits them.
class EditsOnTheHost : public Decoder {
 public:
  explicit EditsOnTheHost(Decoder* decoder) : decoder_(decoder) {}
  const ModelConfig& config() const override { return decoder_->config(); }
  int64_t kv_blocks() const override { return decoder_->kv_blocks(); }
  int64_t kv_block_bytes() const override { return decoder_->kv_block_bytes(); }
  Status forward(const Step& step) override { return decoder_->forward(step); }
  bool makes_summaries() const override { return true; }
  Status forward_summarized(const Step& step, std::span<const RowQuery> queries,
                            const StepEdits& edits, const Meanwhile& meanwhile) override {
    queries_.assign(queries.begin(), queries.end());
    for (RowQuery& query : queries_) {
      if (query.edits != RowQuery::kNone) query.kinds = RowQuery::kLogits;
    }
    return decoder_->forward_summarized(step, queries_, edits, meanwhile);
  }
  LogitsPart logits(int32_t rank) const override { return decoder_->logits(rank); }
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override {
    return decoder_->move_kv(sequence, moves);
  }

 private:
  Decoder* decoder_;
  std::vector<RowQuery> queries_;
};

struct Case {
  std::string name;
  SamplingParams params;
  bool held = false;
  bool whole_rows = false;
  std::vector<double> us = {};
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const float temperature : {0.0f, 0.8f}) {
    SamplingParams plain;
    plain.temperature = temperature;
    SamplingParams biased = plain;
    for (int32_t i = 0; i < 100; ++i)
      biased.logit_bias.push_back({i * 1201, i % 2 == 0 ? 2.0f : -100.0f});
    SamplingParams penalized = plain;
    penalized.repetition_penalty = 1.1f;
    penalized.frequency_penalty = 0.2f;
    penalized.presence_penalty = 0.3f;
    SamplingParams both = penalized;
    both.logit_bias = biased.logit_bias;
    const std::string at = temperature == 0.0f ? ", greedy" : ", temperature 0.8";
    all.push_back({"unconstrained" + at, plain});
    for (const bool whole : {false, true}) {
      const std::string road = at + (whole ? ", whole rows" : "");
      all.push_back({"JSON schema" + road, plain, true, whole});
      all.push_back({"100 biases" + road, biased, false, whole});
      all.push_back({"penalties" + road, penalized, false, whole});
      all.push_back({"all three" + road, both, true, whole});
    }
  }
  return all;
}

// One request: its position in the reply, and the history that its sampler uses.
struct Request {
  std::vector<int32_t> table;
  TokenCounts counts;
  TokenConstraint::State state;
  size_t next = 0;  // index of its next token in the reply
};

class Rounds {
 public:
  Rounds(const Arguments& arguments, Decoder* decoder, CpuDeviceGroup* threads, int32_t vocab,
         std::vector<int32_t> reply, std::shared_ptr<const TokenConstraint> constraint)
      : arguments_(arguments),
        edits_on_host_(decoder),
        summarized_(decoder, threads, vocab),
        whole_(&edits_on_host_, threads, vocab),
        reply_(std::move(reply)),
        constraint_(std::move(constraint)) {
    const int32_t blocks = blocks_each(arguments);
    for (int32_t index = 0; index < arguments.requests; ++index) {
      Request& request = requests_.emplace_back();
      for (int32_t block = 0; block < blocks; ++block) {
        request.table.push_back(index * blocks + block);
      }
      for (int32_t token = 0; token < kCounted; ++token) {
        request.counts.add(token * 251 + index, token % 2 == 0);
      }
      request.state = constraint_->start();
      for (int32_t token = 0; token < 7 * index; ++token) commit(request);
    }
  }

  static int32_t blocks_each(const Arguments& arguments) {
    const auto rounds = kRoundsPerTurn * kTurns * static_cast<int32_t>(cases().size());
    return (arguments.context + rounds + arguments.rows) / kKvBlockTokens + 2;
  }

  Status read_contexts(Decoder& decoder) {
    for (const Request& request : requests_) {
      Step step;
      step.sequences.push_back({request.table.data()});
      for (int32_t position = 0; position < arguments_.context; ++position) {
        step.rows.push_back(row_of(0, position, false));
      }
      FORERUN_RETURN_IF_ERROR(decoder.forward(step));
    }
    position_ = arguments_.context;
    return {};
  }

  // Runs all cases from the same position, so that none attends to more tokens than another.
  Status run(Case& asked) {
    position_ = arguments_.context;
    for (int32_t round = 0; round < kRoundsPerTurn; ++round) {
      const auto start = std::chrono::steady_clock::now();
      FORERUN_RETURN_IF_ERROR(run_round(asked));
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      if (round >= 4) asked.us.push_back(took.count());
    }
    return {};
  }

 private:
  static StepRow row_of(int32_t sequence_idx, int32_t position, bool wanted) {
    return {.token = position % 50 + 1,
            .position = position,
            .sequence_idx = sequence_idx,
            .slot = position,
            .visible = position + 1,
            .boundary = position + 1,
            .wants_logits = wanted};
  }

  void commit(Request& request) {
    const TokenId token = reply_[request.next];
    request.state = constraint_->after(request.state, token);
    if (++request.next == reply_.size()) {
      request.next = 0;
      request.state = constraint_->start();
    }
  }

  Status run_round(const Case& asked) {
    Step step;
    std::vector<RowTask> tasks;
    std::deque<RowResult> results;
    for (size_t index = 0; index < requests_.size(); ++index) {
      Request& request = requests_[index];
      step.sequences.push_back({request.table.data()});
      for (int32_t row = 0; row < arguments_.rows; ++row) {
        step.rows.push_back(row_of(static_cast<int32_t>(index), position_ + row, true));
        RowTask task;
        task.want = Want::kSample;
        task.logits_row = static_cast<int32_t>(tasks.size());
        task.context.params = &asked.params;
        task.context.position = position_ + row + 1;
        task.context.history = &request.counts;
        const auto left = static_cast<int32_t>(reply_.size() - request.next);
        task.context.path =
            std::span(reply_).subspan(request.next, static_cast<size_t>(std::min(row, left)));
        task.context.constraint = asked.held ? constraint_.get() : nullptr;
        task.context.constrained = &request.state;
        task.result = &results.emplace_back();
        tasks.push_back(std::move(task));
      }
    }
    DecoderStepRunner& runner = asked.whole_rows ? whole_ : summarized_;
    FORERUN_RETURN_IF_ERROR(runner.run(step, tasks, {}, {}));
    for (const RowTask& task : tasks) FORERUN_RETURN_IF_ERROR(task.status);
    for (Request& request : requests_) {
      if (asked.held) commit(request);
      if (asked.params.frequency_penalty > 0.0f) request.counts.add(position_ % 500 * 251, false);
    }
    ++position_;
    return {};
  }

  const Arguments arguments_;
  EditsOnTheHost edits_on_host_;
  DecoderStepRunner summarized_, whole_;
  const std::vector<int32_t> reply_;
  const std::shared_ptr<const TokenConstraint> constraint_;
  std::deque<Request> requests_;
  int32_t position_ = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void report(const Arguments& arguments, const std::vector<Case>& all) {
  std::FILE* const file =
      arguments.json.empty() ? nullptr : std::fopen(arguments.json.c_str(), "a");
  double plain = 0.0;
  for (const Case& asked : all) {
    const double us = median(asked.us);
    if (asked.name.starts_with("unconstrained")) plain = us;
    std::printf("%3d requests, %d rows  %-42s %9.1f us  %.3fx\n", arguments.requests,
                arguments.rows, asked.name.c_str(), us, us / plain);
    if (file == nullptr) continue;
    std::fprintf(file,
                 "{\"case\": \"%s\", \"requests\": %d, \"rows\": %d, \"us\": %.1f, \"over "
                 "unconstrained\": %.3f}\n",
                 asked.name.c_str(), arguments.requests, arguments.rows, us, us / plain);
  }
  if (file != nullptr) std::fclose(file);
}

Status measure(const Arguments& arguments) {
  FORERUN_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(arguments.tokenizer));
  OutputFormats formats(tokenizer, {kEndToken});
  OutputFormat format;
  format.kind = OutputFormat::Kind::kJsonSchema;
  format.text = kSchema;
  FORERUN_ASSIGN_OR_RETURN(const auto constraint, formats.constraint(format));
  FORERUN_ASSIGN_OR_RETURN(std::vector<int32_t> reply,
                           tokenizer.encode(kReply, {.add_special_tokens = false}));
  TokenConstraint::State state = constraint->start();
  for (size_t index = 0; index < reply.size() && state != nullptr; ++index) {
    state = constraint->after(state, reply[index]);
    if (state != nullptr) continue;
    return {StatusCode::kInvalidArgument,
            "the schema does not allow token " + std::to_string(index) + " of the reply"};
  }
  FORERUN_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(arguments.model));
  cuda::DecoderCudaOptions options;
  options.devices = {0};
  options.kv_blocks = int64_t{arguments.requests} * Rounds::blocks_each(arguments);
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<Decoder> decoder,
                           cuda::load_decoder_cuda(checkpoint, options));
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<CpuDeviceGroup> threads,
                           CpuDeviceGroup::create_unpinned({arguments.threads}));
  Rounds rounds(arguments, decoder.get(), threads.get(), checkpoint.config().vocab_size,
                std::move(reply), constraint);
  FORERUN_RETURN_IF_ERROR(rounds.read_contexts(*decoder));
  std::vector<Case> all = cases();
  for (int32_t turn = 0; turn < kTurns; ++turn) {
    for (Case& asked : all) FORERUN_RETURN_IF_ERROR(rounds.run(asked));
  }
  report(arguments, all);
  return {};
}

}  // namespace
}  // namespace forerun

int main(int argc, char** argv) {
  forerun::Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool more = i + 1 < argc;
    if (flag == "--requests" && more) {
      arguments.requests = std::atoi(argv[++i]);
    } else if (flag == "--rows" && more) {
      arguments.rows = std::atoi(argv[++i]);
    } else if (flag == "--threads" && more) {
      arguments.threads = std::atoi(argv[++i]);
    } else if (flag == "--context" && more) {
      arguments.context = std::atoi(argv[++i]);
    } else if (flag == "--json" && more) {
      arguments.json = argv[++i];
    } else if (arguments.model.empty()) {
      arguments.model = flag;
    } else {
      arguments.tokenizer = flag;
    }
  }
  const forerun::Status status = forerun::measure(arguments);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
