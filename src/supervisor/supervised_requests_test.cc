#include "supervisor/supervised_requests.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace forerun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// The requests of a supervisor without a thread or a launch: a test acts as the launch.
class SupervisedRequestsTest : public ::testing::Test {
 protected:
  SupervisedRequestsTest() { options_.doubts_requests = true; }

  uint64_t add_connected(uint64_t tag, milliseconds deadline = milliseconds(0)) {
    Request request;
    request.prompt_tokens = {1, 2};
    request.deadline = deadline;
    const uint64_t id = requests_.add(std::move(request), queue_, tag);
    requests_.connect(id);
    return id;
  }
  void start_launch() {
    launch_.note_ready();
    requests_.hand_over_all();
  }
  void lose_launch_by_death() {
    launch_.note_loss(Status(StatusCode::kInternal, "killed"), Clock::now());
    calls_.lose();
    requests_.note_loss();
    requests_.count_death(Status(StatusCode::kInternal, "killed"));
  }
  // Returns the numbers of the parts submitted since the last call.
  std::vector<uint64_t> submitted() {
    std::vector<uint64_t> parts;
    for (const DownMessage& message : calls_.take_messages()) {
      if (message.kind == DownMessage::Kind::kSubmit) parts.push_back(message.id);
    }
    return parts;
  }
  SupervisedRequests::Taken put_out(uint64_t part, bool finished) {
    UpMessage message;
    message.kind = UpMessage::Kind::kEvent;
    message.id = part;
    message.event.tokens = {3};
    message.event.finished = finished;
    return requests_.take_event(std::move(message));
  }
  // Requires that the next event is the last one of the request `tag`; returns its error.
  Status ended(uint64_t tag) {
    const std::optional<Completion> completion = queue_->take(milliseconds(0), false);
    if (!completion || !completion->event.last || completion->tag != tag) {
      ADD_FAILURE() << "request " << tag << " has not ended";
      return {};
    }
    return completion->event.error;
  }

  SupervisorOptions options_;
  LaunchAvailability launch_{seconds(10)};
  LaunchCalls calls_{std::make_shared<WakeDescriptor>()};
  std::shared_ptr<EventQueue> queue_ = std::make_shared<EventQueue>();
  SupervisedRequests requests_{options_, launch_, calls_,
                               [](uint64_t) { return RequestChannel::EngineSide{}; }};
};

TEST_F(SupervisedRequestsTest, SuspectsAreTriedOneAtATime) {
  add_connected(1);
  add_connected(2);
  start_launch();
  EXPECT_EQ(submitted().size(), 2U);
  EXPECT_FALSE(requests_.has_trial());
  lose_launch_by_death();

  start_launch();
  EXPECT_TRUE(submitted().empty());
  requests_.look_after(Clock::now());
  const std::vector<uint64_t> first = submitted();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_TRUE(requests_.has_trial());
  requests_.look_after(Clock::now());
  EXPECT_TRUE(submitted().empty());

  EXPECT_TRUE(put_out(first.front(), false).has_tokens);
  EXPECT_FALSE(requests_.has_trial());
  requests_.look_after(Clock::now());
  EXPECT_EQ(submitted().size(), 1U);
  EXPECT_TRUE(requests_.has_trial());
}

TEST_F(SupervisedRequestsTest, ARequestFailsAtTheLastDeath) {
  add_connected(1);
  for (int deaths = 1; deaths <= SupervisorOptions::kMaxDeaths; ++deaths) {
    EXPECT_EQ(requests_.size(), 1U);
    start_launch();
    requests_.look_after(Clock::now());
    EXPECT_EQ(submitted().size(), 1U);
    lose_launch_by_death();
  }
  EXPECT_EQ(requests_.size(), 0U);
  const Status error = ended(1);
  EXPECT_EQ(error.code(), StatusCode::kInternal);
  EXPECT_NE(error.message().find("3 processes in a row have died"), std::string::npos);
}

TEST_F(SupervisedRequestsTest, RequestsThatNoLaunchTakesEndLate) {
  launch_.note_loss(Status(StatusCode::kInternal, "killed"), Clock::now());
  add_connected(1, milliseconds(5000));
  add_connected(2);
  requests_.look_after(Clock::now());
  EXPECT_EQ(requests_.size(), 2U);

  requests_.look_after(Clock::now() + milliseconds(5001));
  EXPECT_EQ(requests_.size(), 1U);
  const Status late = ended(1);
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(late.message().find("the launch is started again: killed"), std::string::npos);

  requests_.look_after(Clock::now() + options_.longest_wait + milliseconds(1));
  EXPECT_EQ(requests_.size(), 0U);
  EXPECT_NE(ended(2).message().find("no launch for 600 s"), std::string::npos);
}

TEST_F(SupervisedRequestsTest, ARefusalEndsARequestWhoseSubmitterHasGone) {
  launch_.note_ready();
  const uint64_t waiting = requests_.add(Request(), queue_, 1);
  const uint64_t part = requests_.hand_over_new(waiting);
  requests_.take_answer(part, Status(StatusCode::kOverloaded, "full"));
  EXPECT_EQ(requests_.size(), 1U);  // its submitter receives the error and removes it
  EXPECT_FALSE(queue_->take(milliseconds(0), false));

  requests_.connect(waiting);
  requests_.take_answer(part, Status(StatusCode::kOverloaded, "full"));
  EXPECT_EQ(requests_.size(), 0U);
  EXPECT_EQ(ended(1).message(), "full");
}

TEST_F(SupervisedRequestsTest, ADefectIsTriedAgainOnce) {
  add_connected(1);
  for (const bool is_first : {true, false}) {
    start_launch();
    UpMessage message;
    message.kind = UpMessage::Kind::kEvent;
    message.id = submitted().front();
    message.event.finished = true;
    message.event.reason = FinishReason::kError;
    message.event.error = Status(StatusCode::kInternal, "a device failed");
    EXPECT_EQ(requests_.take_event(std::move(message)).failure.has_value(), is_first);
    requests_.note_loss();
  }
  EXPECT_EQ(ended(1).message(), "a device failed");
}

}  // namespace
}  // namespace forerun
