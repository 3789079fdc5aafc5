#include "tools/measure/copy_bandwidth.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace copy_bandwidth_test {

// A clock that advances at each call of Now(), by each of `ticks` in turn.
class TickingClock : public Clock {
 public:
  explicit TickingClock(std::vector<absl::Duration> ticks)
      : ticks_(std::move(ticks)) {}
  absl::Time Now() override {
    now_ += ticks_[num_looks_++ % ticks_.size()];
    return now_;
  }
  AlarmId CallAt(absl::Time, Work) override { return 0; }
  bool Cancel(AlarmId) override { return false; }

 private:
  const std::vector<absl::Duration> ticks_;
  size_t num_looks_ = 0;
  absl::Time now_ = absl::UnixEpoch();
};

TEST(CopyBandwidthTest, CountsWhatIsReadAndWhatIsWrittenByTheFastestCopy) {
  const DefaultEnvironment system(2);
  // Alternates the time between copies with the times of copies: 4, 2, 3 ms,
  // and so on.
  const absl::Duration between = absl::Milliseconds(1);
  TickingClock clock({between, absl::Milliseconds(4), between,
                      absl::Milliseconds(2), between, absl::Milliseconds(3)});
  Environment environment = system.get();
  environment.clock = &clock;
  auto bandwidth = CopyBandwidth::Create(environment, /*num_workers=*/3);
  ASSERT_THAT(bandwidth, IsOk());
  EXPECT_EQ(bandwidth->best(), 0);
  bandwidth->Measure(1);
  EXPECT_DOUBLE_EQ(bandwidth->best(), 2.0 * CopyBandwidth::kBufferBytes / 4e-3);
  bandwidth->Measure(2);
  EXPECT_DOUBLE_EQ(bandwidth->best(), 2.0 * CopyBandwidth::kBufferBytes / 2e-3);
}

}  // namespace copy_bandwidth_test
}  // namespace tutti
