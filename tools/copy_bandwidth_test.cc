#include "tools/copy_bandwidth.h"

#include <atomic>

#include "framework/default_environment.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

// A millisecond passes from one look to the next.
class TickingClock : public Clock {
 public:
  absl::Time Now() override {
    return absl::UnixEpoch() + absl::Milliseconds(++ticks_);
  }
  AlarmId CallAt(absl::Time, Work) override { return 0; }
  bool Cancel(AlarmId) override { return false; }

 private:
  std::atomic<int> ticks_ = 0;
};

TEST(CopyBandwidthTest, CountsWhatIsReadAndWhatIsWritten) {
  const DefaultEnvironment system(2);
  TickingClock clock;
  Environment environment = system.get();
  environment.clock = &clock;
  auto bandwidth = CopyBandwidth::Create(environment, /*num_workers=*/3);
  ASSERT_THAT(bandwidth, IsOk());
  EXPECT_DOUBLE_EQ(bandwidth->Measure(),
                   2.0 * CopyBandwidth::kBufferBytes / 1e-3);
}

}  // namespace
}  // namespace tutti
