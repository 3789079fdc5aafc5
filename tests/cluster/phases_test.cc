#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/peer/local_peer_access.h"
#include "resolvers/local/param_resolver_local.h"
#include "tests/doubles/failing_peer_access.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace phases_test {

using testing::ElementsAre;

// Rules by which calls form a group.

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
    resolver_->CompleteInstanceAsync(
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

TEST_F(GroupPhaseTest, MembersThatDoNotFitGetAnErrorThatNamesBoth) {
  CollectiveRequest on_gpu = Request(3);
  on_gpu.device_type = "GPU";
  struct Case {
    std::string what;
    CollectiveRequest first, second;
    testing::Matcher<Answer> error;
    DeviceAttributes second_device = Cpu(0, 1);
  };
  const Case cases[] = {
      {"another size", Request(3), Request(4),
       IsInvalidArgument("size 3", "size 4", "CPU:0", "CPU:1")},
      {"another device type", Request(3), on_gpu,
       IsInvalidArgument("GPU", "CPU:0", "CPU:1")},
      {"another incarnation", Request(3), Request(3),
       IsFailedPrecondition("restarted", "incarnation 1 ", "with 6", "CPU:0"),
       Cpu(0, 0, /*incarnation=*/6)},
      {"a rank given twice", Request(3, 1), Request(3, 1),
       IsInvalidArgument("rank 1", "CPU:0", "CPU:1")},
      {"a rank given by some", Request(3, 1), Request(3),
       IsInvalidArgument("all members give a rank")}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    resolver_ = ParamResolverLocal::Create({});
    const auto first = Join(Cpu(0, 0), c.first);
    const auto second = Join(c.second_device, c.second);
    const auto third = Join(Cpu(0, 2), c.first);
    ExpectAnswers({first, second, third}, c.error);
  }
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

// Parameters of an instance: members must make matching requests before any
// data moves.

class InstancePhaseTest : public testing::Test {
 protected:
  InstancePhaseTest()
      : job_({.devices_per_task = 3, .make_peer_access = [this](int64_t) {
                auto peers = std::make_unique<FailNthTransfer>(
                    std::make_unique<LocalPeerAccess>(), 0);
                transfers_ = peers.get();
                return peers;
              }}) {}

  // Calls of all members, member 1 with its request changed.
  std::vector<LocalJob::Call*> RunWithOneChanged(
      const CollectiveRequest& request,
      const std::function<void(CollectiveRequest&)>& change) {
    CollectiveRequest changed = request;
    change(changed);
    const std::vector<LocalJob::Call*> calls = {&job_.Start(0, request),
                                                &job_.Start(1, changed),
                                                &job_.Start(2, request)};
    job_.environment().RunAll();
    return calls;
  }

  // Expects all members to fail with a message that has all `in_message`, and
  // no data to be sent.
  void ExpectDifferenceFound(
      const CollectiveRequest& request,
      const std::function<void(CollectiveRequest&)>& change,
      std::vector<std::string> in_message) {
    in_message.push_back("rank 1");
    ExpectEnds(RunWithOneChanged(request, change),
               HasCodeAndTexts(absl::StatusCode::kInvalidArgument, in_message));
    EXPECT_EQ(transfers_->num_transfers(), 0);
  }

  FailNthTransfer* transfers_ = nullptr;
  LocalJob job_;
};

struct Difference {
  std::string what;
  CollectiveOp op;
  std::function<void(CollectiveRequest&)> change;
  std::vector<std::string> in_message;
};

TEST_F(InstancePhaseTest, DifferencesAreInvalidOnAllMembersAndNamed) {
  const Difference differences[] = {
      {"type",
       AllReduce{},
       [](auto& r) { r.op = ReduceScatter{}; },
       {"all_reduce", "reduce_scatter", "ranks 0, 2"}},
      {"dtype",
       AllReduce{},
       [](auto& r) { r.dtype = DType::kInt32; },
       {"dtype", "float32", "int32"}},
      {"shape",
       AllReduce{},
       [](auto& r) { r.shape = TensorShape::Vector(7); },
       {"shape", "[6]", "[7]"}},
      {"merge op",
       AllReduce{},
       [](auto& r) { r.merge_op = ReductionKind::kMax; },
       {"merge op", "sum", "max"}},
      {"final op",
       AllReduce{},
       [](auto& r) { r.final_op = FinalOp::DivideByGroupSize(); },
       {"final op", "identity", "divide_by_group_size"}},
      {"root",
       ReduceToRoot{0},
       [](auto& r) { r.op = ReduceToRoot{2}; },
       {"root"}},
      {"permutation",
       Permute{{1, 2, 0}},
       [](auto& r) { r.op = Permute{{2, 0, 1}}; },
       {"permutation", "[1,2,0]", "[2,0,1]"}},
      {"subdivisions",
       AllReduce{},
       [](auto& r) { r.impl_details.subdiv_offsets = {0, -1}; },
       {"subdivision offsets", "[0,-1]"}},
      {"lists of ranks",
       AllReduce{},
       [](auto& r) { r.impl_details.rank_list = {1, 0}; },
       {"list of ranks", "[1,0]"}},
      {"hint",
       AllReduce{},
       [](auto& r) { r.impl_details.implementation = "TreeReduce"; },
       {"implementation", "TreeReduce"}},
      {"demands for determinism",
       AllReduce{},
       [](auto& r) { r.impl_details.determinism = Determinism::kByRankOrder; },
       {"determinism", "not guaranteed", "by rank order"}},
      {"rows of a gather that is not uneven",
       AllGather{},
       [](auto& r) { r.shape = TensorShape::Vector(2); },
       {"shape"}}};
  CollectiveRequest request = job_.AllReduceRequest(6);
  for (const Difference& difference : differences) {
    SCOPED_TRACE(difference.what);
    ++request.instance_key;
    request.op = difference.op;
    ExpectDifferenceFound(request, difference.change, difference.in_message);
  }
}

TEST_F(InstancePhaseTest, RowsOfAnUnevenGatherMayDiffer) {
  CollectiveRequest request = job_.AllReduceRequest(6);
  request.op = AllGather{.uneven = true};
  const auto calls = RunWithOneChanged(
      request, [](auto& r) { r.shape = TensorShape::Vector(2); });
  ExpectEnds(calls, IsOk());
  EXPECT_EQ(calls[2]->output.num_elements(), 14);
}

TEST_F(InstancePhaseTest, BroadcastWithNoSourceOrTwoSaysSo) {
  const std::pair<std::vector<bool>, std::string> cases[] = {
      {{false, false, false}, "none of its 3 members"},
      {{true, false, true}, "ranks 0, 2 are sources"}};
  CollectiveRequest request = job_.AllReduceRequest(4);
  for (const auto& [is_source, text] : cases) {
    std::vector<LocalJob::Call*> calls;
    for (int rank : {0, 1, 2}) {
      request.op = Broadcast{.is_source = is_source[rank]};
      calls.push_back(&job_.Start(rank, request));
    }
    job_.environment().RunAll();
    ExpectEnds(calls, IsInvalidArgument(text));
    ++request.instance_key;
  }
}

TEST_F(InstancePhaseTest, UnknownImplementationListsTheKnownOnes) {
  CollectiveRequest request = job_.AllReduceRequest(4);
  request.impl_details.implementation = "Fastest";
  ExpectEnds(job_.RunAll(request), IsNotFound("Fastest", "RingReduce"));
}

TEST_F(InstancePhaseTest, ImplementationThatCannotServeListsThoseThatCan) {
  CollectiveRequest request = job_.AllReduceRequest(4);
  request.impl_details.implementation = "RingGather";
  ExpectEnds(job_.RunAll(request),
             IsInvalidArgument("RingGather", "does not do all_reduce",
                               "RingReduce, ShuffleReduce, ", ", TreeReduce"));
}

int num_priced = 0;
int num_initialised = 0;

class Counted : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveParams(const CollGroupParams&,
                                          CollInstanceParams*) override {
    ++num_initialised;
    return absl::OkStatus();
  }
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext& context, StatusCallback done) override {
    context.executor->Launched(context);
    std::move(done)(absl::OkStatus());
  }
};

TEST_F(InstancePhaseTest, ImplementationIsChosenOnceForAllMembers) {
  static CollectiveRegistry registry;
  ASSERT_THAT(registry.Register(
                  "Counted", Implemented<Counted>(
                                 {.collectives = {CollectiveType::kAllReduce},
                                  .cost_seconds =
                                      [](const CostQuery&) {
                                        ++num_priced;
                                        return 1.0;
                                      }})),
              IsOk());
  const auto resolver =
      ParamResolverLocal::Create({.policy = {.registry = &registry}});
  std::vector<std::shared_ptr<const CollectiveParams>> answers;
  for (int round = 0; round < 3; ++round) {
    for (const Device* device : job_.devices()) {
      resolver->CompleteInstanceAsync(
          device->attributes(),
          std::make_shared<const CollectiveRequest>(job_.AllReduceRequest(6)),
          CallNumber{}, nullptr, [&](auto params) {
            ASSERT_THAT(params, IsOk());
            answers.push_back(*std::move(params));
          });
    }
  }
  EXPECT_EQ(num_priced, 1);
  EXPECT_EQ(num_initialised, 1);
  ASSERT_EQ(answers.size(), 9u);
  for (const auto& params : answers) {
    EXPECT_EQ(params->instance, answers[0]->instance);
    EXPECT_EQ(params->instance->impl_details.implementation, "Counted");
  }
}

TEST_F(InstancePhaseTest, ErrorsStayShortHoweverLargeTheGroupIs) {
  constexpr int kSize = 2000;
  const auto resolver = ParamResolverLocal::Create({});
  std::vector<int> permutation(kSize);
  std::iota(permutation.begin(), permutation.end(), 0);
  std::vector<absl::Status> statuses;
  for (int rank = 0; rank < kSize; ++rank) {
    CollectiveRequest request = job_.AllReduceRequest(6);
    request.group_size = kSize;
    request.rank = rank;
    std::rotate(permutation.begin(), permutation.begin() + 1,
                permutation.end());
    request.op = Permute{permutation};
    resolver->CompleteInstanceAsync(
        {.name = {"worker", 0, 0, "CPU", rank}, .incarnation = 1},
        std::make_shared<const CollectiveRequest>(std::move(request)),
        CallNumber{}, nullptr,
        [&](auto params) { statuses.push_back(params.status()); });
  }
  ASSERT_EQ(statuses.size(), static_cast<size_t>(kSize));
  EXPECT_THAT(
      statuses[0],
      IsInvalidArgument("members differ in permutation", "rank 7 has [8,9,10,",
                        "and 1992 more have other values"));
  EXPECT_LT(statuses[0].message().size(), 1500u);
}

TEST_F(InstancePhaseTest, TheMostTellingDifferenceIsNamed) {
  std::vector<CollectiveRequest> requests(3, job_.AllReduceRequest(6));
  requests[1].dtype = DType::kInt32;
  requests[2].op = Barrier{};
  std::vector<LocalJob::Call*> calls;
  for (int rank : {0, 1, 2}) calls.push_back(&job_.Start(rank, requests[rank]));
  job_.environment().RunAll();
  ExpectEnds(calls, IsInvalidArgument("differ in collective: ranks 0, 1 have "
                                      "all_reduce; rank 2 has barrier"));
}

TEST_F(InstancePhaseTest, LaterCallThatAsksForSomethingElseFailsOnAllMembers) {
  const CollectiveRequest request = job_.AllReduceRequest(6);
  job_.RunAll(request);
  ExpectEnds(RunWithOneChanged(
                 request, [](auto& r) { r.shape = TensorShape::Vector(7); }),
             IsInvalidArgument("[6]", "[7]"));
  ExpectEnds(job_.RunAll(request), IsOk());
}

TEST(CachingTest, UniqueInstanceKeysDoNotGrowMemoryWithoutBound) {
  LocalJob job({.devices_per_task = 2, .resolver = {.max_entries = 128}});
  CollectiveRequest request = job.AllReduceRequest(2);
  for (int i = 0; i < 5000; ++i) {
    request.instance_key = i;
    ExpectEnds(job.RunAll(request), IsOk());
    ASSERT_LE(job.resolver().num_entries(), 128u);
  }
}

TEST(CachingTest, ChangedRequestIsFoundThoughTheResolverForgotTheInstance) {
  LocalJob job({.devices_per_task = 2, .resolver = {.max_entries = 8}});
  const CollectiveRequest request = job.AllReduceRequest(4);
  job.RunAll(request);
  for (InstanceKey key = 100; key < 200; ++key) {
    CollectiveRequest other = request;
    other.instance_key = key;
    job.RunAll(other);
  }
  ASSERT_LT(job.resolver().num_instances(), 100u);
  auto& same = job.Start(0, request);
  auto& changed = job.Start(1, job.AllReduceRequest(5));
  job.environment().RunAll();
  ExpectEnds({&same, &changed}, IsInvalidArgument("shape [4]", "[5]"));
}

TEST(CachingTest, ResolverIsAskedOncePerMemberStepAndInstance) {
  LocalJob job({.devices_per_task = 2});
  const CollectiveRequest request = job.AllReduceRequest(2);
  job.RunAll(request);
  const uint64_t before = job.resolver().num_calls();
  for (int i = 0; i < 10; ++i) job.RunAll(request);
  EXPECT_EQ(job.resolver().num_calls(), before);
  EXPECT_EQ(before, 2u);
}

}  // namespace phases_test
}  // namespace tutti
