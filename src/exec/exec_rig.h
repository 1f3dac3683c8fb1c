// A rig for the executor's tests: two fake models behind a real executor.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "exec/decoder_step_runner.h"
#include "exec/fake_decoder_rig.h"
#include "exec/real_executor.h"
#include "exec/stages/stage_pipeline.h"
#include "exec/stages/stage_threads.h"

namespace forerun {

inline constexpr int32_t kVocab = 60;
inline constexpr auto kTimeout = std::chrono::seconds(20);

// Two fake models and an executor over them.
struct Rig {
  struct Options {
    bool threaded = false;
    std::chrono::microseconds spin{0};
    int32_t row_budget = 512;
    const LiveCosts* costs = nullptr;
    int64_t blocks = 64;
    // The draft agrees with the target except after one history in this many; 0 makes it unrelated.
    uint64_t draft_astray_one_in = 0;
    // The number of threads of each device, by role; an empty list means one device.
    std::array<std::vector<int32_t>, kNumRoles> teams = {};
    int32_t device_parts = 0;  // devices that hold the logits; 0 for host memory
    int32_t stages = 1;        // stages of the target
    // Called in each target stage but the last, with the stage's index; set it before the first
    // Step.
    std::function<void(int32_t stage)> in_stage = {};
    std::function<void(const StepRecord&)> on_step = {};
  };
  explicit Rig(const Options& options)
      : target(kVocab + 4, options.blocks, 1),
        draft(kVocab, options.blocks, options.draft_astray_one_in > 0 ? 1 : 2) {
    draft.astray_one_in = options.draft_astray_one_in;
    RealExecutorOptions setup;
    for (int role_idx = 0; role_idx < kNumRoles; ++role_idx) {
      std::vector<int32_t> teams = options.teams[static_cast<size_t>(role_idx)];
      if (teams.empty()) teams.push_back(options.threaded ? 1 : 2);
      FakeDecoder* decoder = role_idx == 0 ? &target : &draft;
      decoder->set_degree(static_cast<int32_t>(teams.size()));
      decoder->set_device_parts(options.device_parts);
      auto device = CpuDeviceGroup::create_unpinned(teams);
      EXPECT_TRUE(device.ok());
      devices.push_back(std::move(device).value());
      const int32_t vocab = common_live_vocab(target.config(), &draft.config());
      setup.runners[static_cast<size_t>(role_idx)] =
          role_idx == 0 && options.stages > 1
              ? cut_target(options, vocab)
              : std::make_unique<DecoderStepRunner>(decoder, devices.back().get(), vocab);
    }
    setup.threaded = {options.threaded, options.threaded};
    setup.spin = options.spin;
    setup.budget.rows = options.row_budget;
    setup.costs = options.costs;
    setup.on_step = options.on_step;
    executor = std::make_unique<RealExecutor>(std::move(setup));
  }
  FakeDecoder& decoder(Role role) { return role == Role::kTarget ? target : draft; }
  std::optional<WorkResult> next() const { return executor->next(kTimeout); }
  void wait_until_kv_is_free() const {
    for (int tries = 0; tries < 20000; ++tries) {
      if (executor->kv_usage(Role::kTarget).used_blocks == 0 &&
          executor->kv_usage(Role::kDraft).used_blocks == 0) {
        return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    ADD_FAILURE() << "KV blocks are still held: " << executor->kv_usage(Role::kTarget).used_blocks
                  << " and " << executor->kv_usage(Role::kDraft).used_blocks;
  }
  // Closes sequence `open`, then checks that no KV block is in use and no stage has counted a
  // violation. Destroys the executor.
  void end(SequenceId open) {
    executor->close(open);
    wait_until_kv_is_free();
    executor.reset();
    EXPECT_EQ(target_violations(), 0);
  }

  // Makes the stages, each with one thread; the last one is `target`.
  std::unique_ptr<StepRunner> cut_target(const Options& options, int32_t vocab) {
    std::vector<PipelineStage> stages;
    for (int32_t stage = 0; stage + 1 < options.stages; ++stage) {
      earlier.push_back(std::make_unique<FakeDecoder>(kVocab + 4, options.blocks, 1));
      earlier.back()->set_stage(stage, options.stages);
      if (options.in_stage) {
        earlier.back()->while_running = [stage, tell = options.in_stage] { tell(stage); };
      }
      stages.push_back({earlier.back().get(), nullptr});
    }
    target.set_stage(options.stages - 1, options.stages);
    stages.push_back({&target, devices.back().get()});
    return std::make_unique<StagePipeline>(
        std::make_unique<StageThreads>(std::move(stages), vocab));
  }
  // Returns the violations that all stages of the target have counted; no Step may be running.
  int64_t target_violations() const {
    int64_t sum = target.violations;
    for (const auto& stage : earlier) sum += stage->violations;
    return sum;
  }

  std::vector<std::unique_ptr<FakeDecoder>> earlier;  // stages of the target before the last
  FakeDecoder target, draft;
  std::vector<std::unique_ptr<CpuDeviceGroup>> devices;
  std::unique_ptr<RealExecutor> executor;
};

inline WorkItem prefix_item(SequenceId sequence, Role role, const std::vector<TokenId>& tokens,
                            int32_t first = 0) {
  WorkItem item;
  item.sequence = sequence;
  item.role = role;
  for (size_t index = 0; index < tokens.size(); ++index) {
    WorkRow row;
    row.token = tokens[index];
    row.position = first + static_cast<int32_t>(index);
    item.rows.push_back(row);
  }
  item.rows.back().want = Want::kSample;
  return item;
}

inline SequenceSpec plain_spec(int32_t max_tokens = 500) {
  SequenceSpec spec;
  spec.sampling.temperature = 0.0f;
  spec.max_tokens = max_tokens;
  return spec;
}

}  // namespace forerun
