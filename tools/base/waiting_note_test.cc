#include "tools/base/waiting_note.h"

#include <gtest/gtest.h>

#include <sstream>

#include "absl/time/time.h"
#include "tests/doubles/simulated_environment.h"

namespace tutti {
namespace waiting_note_test {

class WaitingNoteTest : public testing::Test {
 protected:
  SimulatedEnvironment environment_{1};
  std::ostringstream out_, err_;
  const Console console_{out_, err_};
  const std::shared_ptr<WaitingNote> note_ = WaitingNote::Create(
      {.addresses = {"a:1", "b:2", "c:3"}, .this_task = 1}, absl::Seconds(60),
      environment_.get().clock, console_);
};

TEST_F(WaitingNoteTest, SaysForWhomItWaits) {
  note_->SetMissing({0, 2});
  environment_.Advance(absl::Seconds(3));
  EXPECT_EQ(err_.str(),
            "tutti: task 1 (b:2) waits for task 0 (a:1), task 2 (c:3); "
            "--start-timeout is 60 s\n");
  note_->SetMissing({2});
  environment_.Advance(absl::Seconds(10));
  EXPECT_EQ(err_.str(),
            "tutti: task 1 (b:2) waits for task 0 (a:1), task 2 (c:3); "
            "--start-timeout is 60 s\n"
            "tutti: task 1 (b:2) waits for task 2 (c:3); "
            "--start-timeout is 60 s\n");
}

TEST_F(WaitingNoteTest, ItsLinesCanBeTold) {
  note_->SetMissing({0});
  environment_.Advance(absl::Seconds(3));
  EXPECT_TRUE(IsWaitingNote(err_.str()));
  EXPECT_FALSE(IsWaitingNote("tutti: task 1 (b:2) failed"));
  EXPECT_FALSE(IsWaitingNote("he waits for nobody"));
}

TEST_F(WaitingNoteTest, SaysNothingIfAllComeSoon) {
  note_->SetMissing({0});
  environment_.Advance(absl::Seconds(1));
  note_->SetMissing({});
  environment_.Advance(absl::Seconds(60));
  EXPECT_EQ(err_.str(), "");
}

TEST_F(WaitingNoteTest, SaysNothingOnceItHasEnded) {
  note_->SetMissing({0});
  environment_.Advance(absl::Seconds(3));
  const std::string said = err_.str();
  note_->End();
  environment_.Advance(absl::Seconds(60));
  EXPECT_EQ(err_.str(), said);
}

}  // namespace waiting_note_test
}  // namespace tutti
