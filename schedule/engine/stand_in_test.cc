#include "schedule/engine/stand_in.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {
namespace stand_in_test {

using ::absl::StatusCode;
using ::testing::HasSubstr;

Schedule PlanNothing(const PlanRequest& /*request*/) { return {}; }

// Creates no implementation: nothing runs here.
class Code : public CollectiveFactory {
 public:
  using CollectiveFactory::CollectiveFactory;
  std::unique_ptr<CollectiveImplementationInterface> Create() const override {
    return nullptr;
  }
};

class Shown : public Code, public HasStandIn {
 public:
  explicit Shown(absl::Status status)
      : Code(ImplementationTraits()), status_(std::move(status)) {}
  absl::StatusOr<StandIn> MakeStandIn() const override {
    if (!status_.ok()) return status_;
    return StandIn{.algorithm = {.plan = PlanNothing}, .note = "is otherwise"};
  }

 private:
  const absl::Status status_;
};

TEST(StandInTest, AScheduleStandsForItself) {
  const auto stand_in = StandInOf(*Scheduled({.plan = PlanNothing}));
  ASSERT_THAT(stand_in.status(), IsOk());
  EXPECT_EQ(stand_in->algorithm.plan, PlanNothing);
  EXPECT_EQ(stand_in->note, "");
}

TEST(StandInTest, CodeMayHaveOneAndStaysCode) {
  const Shown factory((absl::OkStatus()));
  const auto stand_in = StandInOf(factory);
  ASSERT_THAT(stand_in.status(), IsOk());
  EXPECT_EQ(stand_in->algorithm.plan, PlanNothing);
  EXPECT_EQ(stand_in->note, "is otherwise");
  EXPECT_EQ(AlgorithmOf(factory), nullptr);
}

TEST(StandInTest, WithoutOneTheErrorSaysWhy) {
  EXPECT_THAT(StandInOf(Code(ImplementationTraits())).status(),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("is code")));
  ImplementationTraits traits;
  traits.delegate = "Courier";
  EXPECT_THAT(StandInOf(Code(traits)).status(),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("Courier")));
  EXPECT_THAT(StandInOf(Shown(absl::NotFoundError("lost"))).status(),
              StatusIs(StatusCode::kNotFound, HasSubstr("lost")));
}

}  // namespace stand_in_test
}  // namespace tutti
