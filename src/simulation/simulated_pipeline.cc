#include "simulation/simulated_pipeline.h"

#include <cmath>
#include <utility>

namespace forerun {

SimulatedPipeline::SimulatedPipeline(std::unique_ptr<StepRunner> answers,
                                     const StepProfile* profile, const int64_t* now_ns,
                                     double host_seconds)
    : ForwardingRunner(std::move(answers)),
      profile_(profile),
      now_ns_(now_ns),
      host_ns_(std::llround(1e9 * host_seconds)),
      timeline_(*profile->stages, [profile](const StepLoad& load) {
        return profile->costs.seconds(Role::kTarget, load);
      }) {}

uint64_t SimulatedPipeline::issue(const Step& step, std::span<RowTask> tasks,
                                  std::span<RejectionTask> rejections,
                                  std::span<const int32_t> dropped,
                                  const std::function<void(PipelineEvent)>* tell) {
  tell_ = tell;
  outcomes_[++issued_] = inner().run(step, tasks, rejections, {});
  timeline_.issue(issued_, load_of(step), rejections.empty() ? dropped : std::span<const int32_t>(),
                  *now_ns_ + host_ns_);
  return issued_;
}

void SimulatedPipeline::drop(std::span<const IssuedRow> rows) { timeline_.drop(rows, *now_ns_); }

void SimulatedPipeline::advance() {
  events_.clear();
  timeline_.advance(*now_ns_, events_);
  for (PipelineEvent& event : events_) {
    if (event.kind == PipelineEvent::Kind::kRetired) {
      event.status = std::move(outcomes_.extract(event.step).mapped());
    }
    (*tell_)(std::move(event));
  }
}

}  // namespace forerun
