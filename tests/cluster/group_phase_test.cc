// Rules by which calls form a group.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "resolvers/local/param_resolver_local.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {
namespace group_phase_test {

using testing::ElementsAre;

using Answer = absl::StatusOr<std::shared_ptr<const CollectiveParams>>;

DeviceAttributes Cpu(int task, int index, uint64_t incarnation = 1) {
  return {.name = {"worker", 0, task, "CPU", index},
          .incarnation = incarnation};
}

CollectiveRequest Request(int group_size, int rank = -1) {
  CollectiveRequest request;
  request.group_key = 9;
  request.group_size = group_size;
  request.rank = rank;
  request.instance_key = 1;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(4);
  return request;
}

class GroupPhaseTest : public testing::Test {
 protected:
  // Makes a call. Returns the place for its answer.
  std::shared_ptr<std::optional<Answer>> Join(
      const DeviceAttributes& device, const CollectiveRequest& request,
      std::shared_ptr<Cancellation> cancellation = nullptr) {
    auto answer = std::make_shared<std::optional<Answer>>();
    resolver_->CompleteParamsAsync(
        device, std::make_shared<const CollectiveRequest>(request),
        CallNumber{}, std::move(cancellation),
        [answer](Answer given) { *answer = std::move(given); });
    return answer;
  }

  static void ExpectAnswers(
      const std::vector<std::shared_ptr<std::optional<Answer>>>& answers,
      const testing::Matcher<Answer>& matcher) {
    for (const auto& answer : answers) {
      EXPECT_THAT(*answer, testing::Optional(matcher));
    }
  }

  static std::vector<std::string> MembersOf(const Answer& answer) {
    std::vector<std::string> names;
    for (const CollGroupMember& member : (*answer)->group->members) {
      names.push_back(
          absl::StrCat(member.device.name.task, ":", member.device.name.index));
    }
    return names;
  }

  std::shared_ptr<ParamResolverLocal> resolver_ =
      ParamResolverLocal::Create({});
};

TEST_F(GroupPhaseTest, CompletesWhenTheLastMemberComes) {
  const auto first = Join(Cpu(0, 0), Request(2));
  EXPECT_FALSE(first->has_value());
  const auto second = Join(Cpu(0, 1), Request(2));
  ASSERT_TRUE(first->has_value() && second->has_value());
  ASSERT_THAT(**first, IsOk());
  ASSERT_THAT(**second, IsOk());
  EXPECT_EQ((***first)->default_rank, 0);
  EXPECT_EQ((***second)->default_rank, 1);
  EXPECT_EQ((***first)->group, (***second)->group);
  EXPECT_EQ((***first)->instance, (***second)->instance);
}

TEST_F(GroupPhaseTest, DifferentSizeIsInvalidForAllMembersAndNamesBoth) {
  const auto first = Join(Cpu(0, 0), Request(3));
  const auto second = Join(Cpu(0, 1), Request(4));
  const auto third = Join(Cpu(0, 2), Request(3));
  ExpectAnswers({first, second, third},
                IsInvalidArgument("size 3", "size 4", "CPU:0", "CPU:1"));
}

TEST_F(GroupPhaseTest, DifferentDeviceTypeIsInvalidForAllMembersAndNamesBoth) {
  const auto first = Join(Cpu(0, 0), Request(2));
  CollectiveRequest request = Request(2);
  request.device_type = "GPU";
  const auto second = Join(Cpu(0, 1), request);
  ExpectAnswers({first, second}, IsInvalidArgument("GPU", "CPU:0", "CPU:1"));
}

TEST_F(GroupPhaseTest, OneDeviceTooManyIsInvalidForAllMembers) {
  const auto first = Join(Cpu(0, 0), Request(2));
  const auto second = Join(Cpu(0, 1), Request(2));
  ASSERT_THAT(**first, IsOk());
  const auto group = (***first)->group;
  EXPECT_FALSE(group->cancellation->cancelled());
  const auto third = Join(Cpu(0, 2), Request(2));
  const auto again = Join(Cpu(0, 0), Request(2));
  ExpectAnswers({third, again},
                IsInvalidArgument("all of its 2 members", "CPU:0", "CPU:2"));
  EXPECT_THAT(group->cancellation->status(), IsInvalidArgument("CPU:2"));
}

TEST_F(GroupPhaseTest, SameDeviceTwiceWithTheSameIncarnationIsIdempotent) {
  const auto first = Join(Cpu(0, 0), Request(2));
  const auto again = Join(Cpu(0, 0), Request(2));
  EXPECT_FALSE(first->has_value());
  EXPECT_FALSE(again->has_value());
  const auto second = Join(Cpu(0, 1), Request(2));
  ExpectAnswers({first, again, second}, IsOk());
  EXPECT_EQ((***again)->default_rank, 0);
}

TEST_F(GroupPhaseTest, SameDeviceWithAnotherIncarnationIsAFailedPrecondition) {
  const auto first = Join(Cpu(0, 0, /*incarnation=*/5), Request(2));
  const auto again = Join(Cpu(0, 0, /*incarnation=*/6), Request(2));
  ExpectAnswers({first, again},
                IsFailedPrecondition("restarted", "5", "6", "CPU:0"));
}

TEST_F(GroupPhaseTest, RanksThatCallersGiveAreHonoured) {
  Join(Cpu(0, 0), Request(3, 2));
  Join(Cpu(0, 1), Request(3, 0));
  const auto last = Join(Cpu(1, 0), Request(3, 1));
  ASSERT_TRUE(last->has_value());
  ASSERT_THAT(**last, IsOk());
  EXPECT_EQ((***last)->default_rank, 1);
  EXPECT_THAT(MembersOf(**last), ElementsAre("0:1", "1:0", "0:0"));
}

TEST_F(GroupPhaseTest, RankGivenTwiceIsInvalid) {
  const auto first = Join(Cpu(0, 0), Request(3, 1));
  const auto second = Join(Cpu(0, 1), Request(3, 1));
  ExpectAnswers({first, second}, IsInvalidArgument("rank 1", "CPU:0", "CPU:1"));
}

TEST_F(GroupPhaseTest, RankGivenBySomeMembersOnlyIsInvalid) {
  const auto first = Join(Cpu(0, 0), Request(3, 1));
  const auto second = Join(Cpu(0, 1), Request(3));
  ExpectAnswers({first, second}, IsInvalidArgument("all members give a rank"));
}

TEST_F(GroupPhaseTest, DefaultOrderIsTasksInNumericOrder) {
  Join(Cpu(10, 0), Request(4));
  Join(Cpu(9, 1), Request(4));
  Join(Cpu(2, 0), Request(4));
  const auto last = Join(Cpu(9, 0), Request(4));
  ASSERT_THAT(**last, IsOk());
  EXPECT_THAT(MembersOf(**last), ElementsAre("2:0", "9:0", "9:1", "10:0"));
}

TEST_F(GroupPhaseTest, DefaultOrderFollowsTheStrongestLinksWithinATask) {
  std::vector<DeviceAttributes> devices = {Cpu(0, 0), Cpu(0, 1), Cpu(0, 2),
                                           Cpu(0, 3)};
  devices[0].locality.links = {{1, 1}, {2, 5}, {3, 1}};
  devices[2].locality.links = {{1, 2}, {3, 2}};
  devices[1].locality.links = {{3, 9}};
  std::shared_ptr<std::optional<Answer>> last;
  for (const DeviceAttributes& device : devices) {
    last = Join(device, Request(4));
  }
  ASSERT_THAT(**last, IsOk());
  EXPECT_THAT(MembersOf(**last), ElementsAre("0:0", "0:2", "0:1", "0:3"));
}

TEST_F(GroupPhaseTest, CancelledWaitLeavesNothingBehind) {
  const auto token = std::make_shared<Cancellation>();
  const auto first = Join(Cpu(0, 0), Request(3), token);
  token->Cancel(absl::CancelledError("no more"));
  ASSERT_TRUE(first->has_value());
  EXPECT_THAT(**first, IsCancelled("no more"));
  EXPECT_EQ(resolver_->num_groups(), 0u);
  // Another size is now allowed.
  Join(Cpu(0, 0), Request(2));
  EXPECT_THAT(**Join(Cpu(0, 1), Request(2)), IsOk());
}

TEST_F(GroupPhaseTest, CancelledWaitOfOneLeavesTheOthersWaiting) {
  const auto token = std::make_shared<Cancellation>();
  const auto first = Join(Cpu(0, 0), Request(2));
  const auto second = Join(Cpu(0, 1), Request(3), token);
  ASSERT_TRUE(first->has_value());  // The sizes differ.
  resolver_->EndGroup(9, absl::CancelledError("again"));
  const auto third = Join(Cpu(0, 0), Request(2));
  const auto fourth = Join(Cpu(0, 0), Request(2), token);
  token->Cancel(absl::CancelledError("no more"));
  EXPECT_FALSE(third->has_value());
  ASSERT_TRUE(fourth->has_value());
  Join(Cpu(0, 1), Request(2));
  ASSERT_TRUE(third->has_value());
  EXPECT_THAT(**third, IsOk());
}

TEST_F(GroupPhaseTest, EndedGroupIsFormedAgainAsTheNextGeneration) {
  Join(Cpu(0, 0), Request(2));
  const auto before = Join(Cpu(0, 1), Request(2));
  resolver_->EndGroup(9, absl::AbortedError("lost"));
  EXPECT_THAT((***before)->group->cancellation->status(), IsAborted("lost"));
  Join(Cpu(0, 0, /*incarnation=*/2), Request(2));
  const auto after = Join(Cpu(0, 1), Request(2));
  ASSERT_THAT(**after, IsOk());
  EXPECT_GT((***after)->group->generation, (***before)->group->generation);
  EXPECT_FALSE((***after)->group->cancellation->cancelled());
}

TEST_F(GroupPhaseTest, ResolverThatGoesAwayEndsWhatWaits) {
  const auto first = Join(Cpu(0, 0), Request(2));
  resolver_.reset();
  ASSERT_TRUE(first->has_value());
  EXPECT_THAT(**first, IsCancelled("shut down"));
}

TEST_F(GroupPhaseTest, ManyMembersMayAllLeave) {
  constexpr int kSize = 4096;
  std::vector<std::shared_ptr<Cancellation>> tokens;
  std::vector<std::shared_ptr<std::optional<Answer>>> answers;
  const auto join = [&](int index, int64_t instance_key) {
    CollectiveRequest request = Request(kSize);
    request.instance_key = instance_key;
    tokens.push_back(std::make_shared<Cancellation>());
    answers.push_back(Join(Cpu(0, index), request, tokens.back()));
  };
  const auto all_leave = [&] {
    for (const auto& token : tokens) {
      token->Cancel(absl::CancelledError("no more"));
    }
    for (const auto& answer : answers) {
      ASSERT_TRUE(answer->has_value());
      EXPECT_THAT(**answer, IsCancelled("no more"));
    }
    tokens.clear();
    answers.clear();
  };
  // Leaves the group without its last member.
  for (int index = 0; index + 1 < kSize; ++index) join(index, 1);
  all_leave();
  EXPECT_EQ(resolver_->num_groups(), 0u);
  // Leaves the instance without its last member.
  for (int index = 0; index < kSize; ++index)
    Join(Cpu(0, index), Request(kSize));
  EXPECT_EQ(resolver_->num_instances(), 1u);
  for (int index = 0; index + 1 < kSize; ++index) join(index, 2);
  EXPECT_EQ(resolver_->num_instances(), 2u);
  all_leave();
  EXPECT_EQ(resolver_->num_instances(), 1u);
}

TEST_F(GroupPhaseTest, LargestGroupCompletes) {
  std::shared_ptr<std::optional<Answer>> last;
  for (int index = 0; index < kMaxGroupSize; ++index) {
    last = Join(Cpu(index / 256, index % 256), Request(kMaxGroupSize));
  }
  ASSERT_TRUE(last->has_value());
  ASSERT_THAT(**last, IsOk());
  EXPECT_EQ((***last)->group->layout->num_tasks(), 256);
  EXPECT_EQ((***last)->default_rank, kMaxGroupSize - 1);
}

}  // namespace group_phase_test
}  // namespace tutti
