// Bad input of an embedder and bad decisions of a peer give a Status that
// quotes the bad values. Nothing crashes or hangs, and the other members learn
// of the error.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/collective/group_resources.h"
#include "framework/executor/executor_core.h"
#include "framework/peer/local_peer_access.h"
#include "resolvers/local/instance_check.h"
#include "tests/cluster/simulated_cluster.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {
namespace requests_test {

using absl::StatusCode;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::Optional;

CollectiveRequest Request(int64_t num_elements = 6) {
  return LocalJob({.devices_per_task = 3}).AllReduceRequest(num_elements);
}

// All three members make `request`, member 1 with changed arguments. All fail
// with a status that `matcher` matches.
void ExpectAllFail(const std::function<void(CollectiveArgs&)>& change,
                   const testing::Matcher<absl::Status>& matcher,
                   const CollectiveRequest& request = Request()) {
  LocalJob job({.devices_per_task = 3});
  ExpectEnds(job.RunAll(request,
                        [&](CollectiveArgs& args) {
                          if (!change || args.device != job.devices()[1])
                            return;
                          change(args);
                        }),
             matcher);
}

struct BadRequest {
  std::string name;
  std::function<void(CollectiveRequest&)> change;
  std::vector<std::string> in_message;
};

class BadRequestTest : public testing::TestWithParam<BadRequest> {};

TEST_P(BadRequestTest, IsInvalidWithTheValuesInTheText) {
  CollectiveRequest request = Request();
  GetParam().change(request);
  LocalJob job({.devices_per_task = 3});
  ExpectEnds(job.RunAll(request), HasCodeAndTexts(StatusCode::kInvalidArgument,
                                                  GetParam().in_message));
}

std::vector<BadRequest> BadRequests() {
  return {
      {"GroupSizeZero", [](auto& r) { r.group_size = 0; }, {"group size 0"}},
      {"GroupSizeNegative", [](auto& r) { r.group_size = -4; }, {"-4"}},
      {"GroupSizeHuge", [](auto& r) { r.group_size = 65537; }, {"65537"}},
      {"RankOutOfRange", [](auto& r) { r.rank = 3; }, {"rank 3", "3"}},
      {"RankNegative", [](auto& r) { r.rank = -2; }, {"rank -2"}},
      {"RootOutOfRange",
       [](auto& r) { r.op = ReduceToRoot{3}; },
       {"root 3", "group of 3"}},
      {"RootNegative", [](auto& r) { r.op = ScatterFromRoot{-1}; }, {"-1"}},
      {"NotDivisible",
       [](auto& r) {
         r.op = ReduceScatter{};
         r.shape = TensorShape::Vector(7);
       },
       {"[7]", "not divisible", "3"}},
      {"ScalarGather",
       [](auto& r) {
         r.op = AllGather{};
         r.shape = TensorShape();
       },
       {"scalar"}},
      {"PermutationTooShort",
       [](auto& r) { r.op = Permute{{1, 0}}; },
       {"[1,0]", "2 entries"}},
      {"PermutationTwice",
       [](auto& r) { r.op = Permute{{1, 1, 0}}; },
       {"[1,1,0]", "1 stands twice"}},
      {"PermutationOutOfRange",
       [](auto& r) { r.op = Permute{{1, 5, 0}}; },
       {"5 is no rank"}},
      {"SendRowsDoNotAddUp",
       [](auto& r) { r.op = AllToAll{{1, 2, 4}}; },
       {"add up to 7", "6"}},
      {"SendRowsNegative",
       [](auto& r) { r.op = AllToAll{{-1, 3, 4}}; },
       {"-1"}},
      {"ReducedBool", [](auto& r) { r.dtype = DType::kBool; }, {"bool"}},
      {"FloatBits",
       [](auto& r) { r.merge_op = ReductionKind::kBxor; },
       {"bxor", "float32"}},
      {"Subdivisions",
       [](auto& r) { r.impl_details.max_subdivs_per_device = -2; },
       {"-2"}},
      {"TooManySubdivisions",
       [](auto& r) { r.impl_details.subdiv_offsets.resize(1025); },
       {"1025 entries", "1024"}},
      {"TooManyChunks",
       [](auto& r) {
         r.group_size = 65536;
         r.impl_details.subdiv_offsets.resize(257);
       },
       {"257 entries", "65536", "16842752 chunks", "16777216"}},
      {"EmptyDeviceType", [](auto& r) { r.device_type = ""; }, {"device type"}},
      {"OtherDeviceType", [](auto& r) { r.device_type = "TPU"; }, {"TPU"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Requests, BadRequestTest,
                         testing::ValuesIn(BadRequests()),
                         [](const auto& info) { return info.param.name; });

// Order of the bad member's call, and the kind of all calls.
struct Order {
  bool comes_first = false;
  bool prepares = false;
};

std::ostream& operator<<(std::ostream& out, Order order) {
  return out << "first " << order.comes_first << ", prepares "
             << order.prepares;
}

constexpr Order kOrders[] = {
    {.comes_first = false, .prepares = false},
    {.comes_first = false, .prepares = true},
    {.comes_first = true, .prepares = false},
    {.comes_first = true, .prepares = true},
};

// Four members take part once, member 0 with changed arguments. All end with
// the same error, which `matcher` matches. Later calls succeed.
void ExpectOneEndsAll(Order order,
                      const std::function<void(CollectiveArgs&)>& change,
                      const testing::Matcher<absl::Status>& matcher) {
  LocalJob job({.devices_per_task = 4});
  const CollectiveRequest request = job.AllReduceRequest(6);
  std::vector<int> devices = {1, 2, 3};
  devices.insert(order.comes_first ? devices.begin() : devices.end(), 0);
  std::vector<LocalJob::Call*> calls;
  for (const int device : devices) {
    const LocalJob::Change own_change = device == 0 ? change : nullptr;
    calls.push_back(order.prepares ? &job.Prepare(device, request, own_change)
                                   : &job.Start(device, request, own_change));
  }
  job.environment().RunAll();
  ExpectEnds(calls, matcher);
  EXPECT_EQ(calls[0]->status, calls[3]->status);
  ExpectEnds(job.RunAll(request), IsOk());
}

struct WrongGroup {
  int size;
  int rank;
};

class WrongGroupTest : public testing::TestWithParam<WrongGroup> {};

TEST_P(WrongGroupTest, OfOneMemberEndsAllWhetherItComesFirstOrLast) {
  for (const Order order : kOrders) {
    SCOPED_TRACE(order);
    ExpectOneEndsAll(
        order,
        [](CollectiveArgs& args) {
          CollectiveRequest wrong = *args.request;
          wrong.group_size = GetParam().size;
          wrong.rank = GetParam().rank;
          args.request =
              std::make_shared<const CollectiveRequest>(std::move(wrong));
        },
        IsInvalidArgument("(group 1, instance 1)"));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, WrongGroupTest,
                         testing::Values(WrongGroup{.size = 0, .rank = -1},
                                         WrongGroup{.size = 1, .rank = 3},
                                         WrongGroup{.size = -1, .rank = -1},
                                         WrongGroup{.size = 70000, .rank = -1},
                                         WrongGroup{.size = 4, .rank = 9}));

TEST(BadArgsTest, SegmentsBesidesAnInputOrAnOutputEndTheExecutionOnAll) {
  const Tensor tensor =
      *Tensor::Allocate(DType::kFloat32, TensorShape::Vector(6));
  const auto segments = *SegmentList::Create({{tensor, tensor}});
  for (const Order order : kOrders) {
    for (const bool has_input : {true, false}) {
      SCOPED_TRACE(order);
      ExpectOneEndsAll(
          order,
          [&](CollectiveArgs& args) {
            args.segments = segments;
            if (!has_input) args.input = Tensor();
          },
          IsInvalidArgument("CPU:0 called group 1, instance 1",
                            has_input ? "segments and an input besides"
                                      : "segments and an output besides"));
    }
  }
}

TEST(BadArgsTest, APreparationWithoutAnInputFails) {
  LocalJob job({.devices_per_task = 2});
  job.Prepare(0, job.AllReduceRequest(6));
  auto& wrong = job.Prepare(1, job.AllReduceRequest(6),
                            [](auto& args) { args.input = Tensor(); });
  job.environment().RunAll();
  ExpectEnds({&wrong}, IsInvalidArgument("no input"));
}

TEST(BadArgsTest, APreparationOfANumberedExecutionEndsItOnAll) {
  for (const Order order : kOrders) {
    if (!order.prepares) continue;
    SCOPED_TRACE(order);
    ExpectOneEndsAll(
        order, [](CollectiveArgs& args) { args.execution = 0; },
        IsInvalidArgument("CPU:0 prepared execution 0", "group 1, instance 1"));
  }
}

TEST(BadArgsTest, NullDeviceAndNullRequest) {
  LocalJob job({});
  const CollectiveRequest request = job.AllReduceRequest(4);
  const auto no_device = [](CollectiveArgs& args) { args.device = nullptr; };
  const auto no_request = [](CollectiveArgs& args) { args.request = nullptr; };
  ExpectEnds(
      {&job.Start(0, request, no_device), &job.Prepare(0, request, no_device)},
      IsInvalidArgument("without a device"));
  ExpectEnds({&job.Start(0, request, no_request),
              &job.Prepare(0, request, no_request)},
             IsInvalidArgument("without a request"));
}

TEST(BadArgsTest, DeviceOfAnotherManagerFailsAloneWhateverItsName) {
  LocalJob job({.devices_per_task = 2});
  LocalJob other({.devices_per_task = 2, .seed = 2});
  CpuDevice stranger({.name = {"elsewhere", 0, 0, "CPU", 0}});
  for (Device* device : {other.devices()[0], static_cast<Device*>(&stranger)}) {
    ExpectEnds(
        {&job.Start(0, Request(), [&](auto& args) { args.device = device; })},
        IsInvalidArgument(device->full_name(), "not one of the devices"));
  }
  ExpectEnds(job.RunAll(job.AllReduceRequest(4)), IsOk());
}

TEST(BadArgsTest, NoCallback) {
  LocalJob job({.devices_per_task = 1});
  job.executor().ExecuteAsync({}, nullptr);
  job.executor().Prepare({}, nullptr);
  auto request =
      std::make_shared<const CollectiveRequest>(job.AllReduceRequest(4));
  Tensor output;
  job.executor().Prepare(
      {.device = job.devices()[0],
       .request = request,
       .input = *Tensor::Allocate(request->dtype, request->shape),
       .output = &output},
      nullptr);
  job.environment().RunAll();
}

TEST(BadArgsTest, ExecutionGivenNowAndNotBefore) {
  LocalJob job({.devices_per_task = 1});
  const CollectiveRequest request = job.AllReduceRequest(4);
  job.RunAll(request);
  auto& call =
      job.Start(0, request, [](CollectiveArgs& args) { args.execution = 7; });
  ExpectEnds({&call}, IsInvalidArgument("by execution number now"));
}

// Device 0 makes the call that differs, first or last.
TEST(BadArgsTest, ANumberThatOneMemberLeavesOutOrAddsEndsTheExecutionOnAll) {
  for (const std::vector<int>& devices :
       {std::vector{0, 1, 2, 3}, {1, 2, 3, 0}}) {
    for (const bool leaves_out : {true, false}) {
      SCOPED_TRACE(testing::PrintToString(devices));
      LocalJob job({.devices_per_task = 4});
      const auto expect_ends = [&](uint64_t execution, bool differs,
                                   const testing::Matcher<absl::Status>& m) {
        std::vector<LocalJob::Call*> calls;
        for (const int device : devices) {
          calls.push_back(&job.Start(
              device, job.AllReduceRequest(4), [&](CollectiveArgs& args) {
                const bool is_other = differs && device == 0;
                if (is_other != leaves_out) args.execution = execution;
              }));
        }
        job.environment().RunAll();
        ExpectEnds(calls, m);
      };
      expect_ends(/*execution=*/7, /*differs=*/false, IsOk());
      expect_ends(
          /*execution=*/8, /*differs=*/true,
          IsInvalidArgument(absl::StrCat(
              "CPU:0 called group 1, instance 1 by execution number ",
              leaves_out ? "before, but not now" : "now, but not before")));
      expect_ends(/*execution=*/9, /*differs=*/false, IsOk());
    }
  }
}

TEST(BadArgsTest, AnInstanceWithAnotherRequestNeedsAnotherKey) {
  LocalJob job({.devices_per_task = 2});
  CollectiveRequest request = job.AllReduceRequest(3);
  job.RunAll(request);
  request.shape = TensorShape::Vector(2);
  ExpectEnds(
      job.RunAll(request),
      IsInvalidArgument("was completed with shape [3], but is now called "
                        "with [2]; give it another instance key"));
  request.instance_key = 2;
  ExpectEnds(job.RunAll(request), IsOk());
}

TEST(InstanceKeyTest, GroupsThatUseTheSameDoNotMeet) {
  LocalJob job({.devices_per_task = 4});
  std::vector<LocalJob::Call*> calls;
  for (int device = 0; device < 4; ++device) {
    CollectiveRequest request = job.AllReduceRequest(3);
    request.group_size = 2;
    request.group_key = 1 + device / 2;
    calls.push_back(&job.Start(device, request));
  }
  // A device may be in several groups, of different sizes.
  for (int device = 0; device < 3; ++device) {
    CollectiveRequest request = job.AllReduceRequest(3);
    request.group_size = 3;
    request.group_key = 3;
    calls.push_back(&job.Start(device, request));
  }
  job.environment().RunAll();
  ExpectEnds(calls, IsOk());
  const float sums[] = {3, 3, 7, 7, 6, 6, 6};
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_THAT(calls[i]->result(), Each(sums[i])) << "call " << i;
  }
}

TEST(BadArgsTest, AGroupThatFailedSaysHowItBeginsAnew) {
  LocalJob job({.devices_per_task = 3});
  const CollectiveRequest right = job.AllReduceRequest(3);
  CollectiveRequest wrong = right;
  wrong.group_size = 2;
  const std::string why = "for size 2";
  const std::string what_to_do =
      "; the group has failed: EndGroup() begins it anew";
  const LocalJob::Call& first = job.Start(0, wrong);
  job.Start(1, right);
  job.Start(2, right);
  job.environment().RunAll();
  EXPECT_THAT(
      first.status,
      Optional(StatusIs(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr(why), Not(HasSubstr(what_to_do))))));
  ExpectEnds(job.RunAll(right), IsInvalidArgument(why + what_to_do));
  job.resolver().EndGroup(right.group_key, absl::AbortedError("enough"));
  ExpectEnds(job.RunAll(right), IsOk());
}

// An input or output that is missing, of another type, or that overlaps.
TEST(BadArgsTest, BuffersThatDoNotFitFailTheExecutionOnAll) {
  const std::string whose = "all_reduce (group 1, instance 1), rank 1 (";
  const TensorShape shape = TensorShape::Vector(6);
  std::vector<float> memory(9);
  ExpectAllFail([](auto& args) { args.input = Tensor(); },
                IsInvalidArgument("rank 1", "no input"));
  ExpectAllFail([](auto& args) { args.output = nullptr; },
                IsInvalidArgument(
                    whose, "device:CPU:1): there is no place for the output"));
  ExpectAllFail(
      [](auto& args) {
        args.input = *Tensor::Allocate(DType::kFloat32, TensorShape::Vector(5));
      },
      IsInvalidArgument(
          whose, "device:CPU:1): the input is float32[5], wanted float32[6]"));
  ExpectAllFail(
      [&](auto& args) {
        *args.output = *Tensor::Allocate(DType::kInt32, shape);
      },
      IsInvalidArgument("rank 1", "int32", "float32"));
  ExpectAllFail(
      [&](auto& args) {
        args.input = *Tensor::Wrap(DType::kFloat32, shape, memory.data());
        *args.output = *Tensor::Wrap(DType::kFloat32, shape, memory.data() + 3);
      },
      IsInvalidArgument("rank 1", "overlap"));
}

TEST(BadArgsTest, ExecutionTakenTwiceByADevice) {
  LocalJob job({.devices_per_task = 2});
  const CollectiveRequest request = job.AllReduceRequest(4);
  const auto number = [](CollectiveArgs& args) { args.execution = 5; };
  auto& first = job.Start(0, request, number);
  auto& again = job.Start(0, request, number);
  ExpectEnds({&again}, IsAlreadyExists("execution 5", "CPU:0"));
  job.Start(1, request, number);
  job.environment().RunAll();
  EXPECT_THAT(*first.status, IsOk());
}

TEST(BadArgsTest, MergeOpThatThrowsEndsTheExecutionOnAllMembers) {
  CollectiveRequest request = Request();
  request.merge_op = *MergeOp::Custom(
      {.name = "broken", .commutative = true, .apply = [](auto...) {
         throw std::runtime_error("cannot merge");
         return absl::OkStatus();
       }});
  ExpectAllFail(
      nullptr, StatusIs(StatusCode::kInternal, "op broken threw: cannot merge"),
      request);
}

// Tasks check the leader's decisions: a peer may be wrong, or have another
// implementation under the same name, or this task may not have it.

class NeverRun : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback) override {}
};

ImplementationTraits TraitsOf(CollectiveType type) {
  ImplementationTraits traits{.summary = "for tests", .collectives = {type}};
  traits.cost_seconds = [](const CostQuery&) { return 1.0; };
  return traits;
}

void Register(CollectiveRegistry& registry, const std::string& name,
              ImplementationTraits traits) {
  ASSERT_THAT(registry.Register(name, Implemented<NeverRun>(std::move(traits))),
              IsOk());
}

constexpr CollectiveType kWanted = CollectiveType::kAllReduce;

// Status of the second task's call, where `decided` has the name of the
// implementation that the first task, the leader, chooses for an all_reduce.
absl::Status AnswerFor(ImplementationTraits decided) {
  CollectiveRegistry leaders, others;
  Register(leaders, "Chosen", TraitsOf(kWanted));
  Register(others, "Chosen", std::move(decided));
  SimulatedCluster cluster(
      {.policies = {{.registry = &leaders}, {.registry = &others}}});
  cluster.StartAll();
  const CollectiveRequest request =
      AllReduceOf(/*group_key=*/7, /*size=*/2, /*instance_key=*/1);
  const auto first = cluster.Request(0, 0, request);
  const auto second = cluster.Request(1, 0, request);
  cluster.RunFor(absl::Seconds(1));
  EXPECT_THAT(first->status(), IsOk());
  return second->status();
}

TEST(DecidedImplementationTest, RunsIfItServes) {
  EXPECT_THAT(AnswerFor(TraitsOf(kWanted)), IsOk());
}

TEST(DecidedImplementationTest, IsRefusedIfItDoesSomethingElse) {
  EXPECT_THAT(
      AnswerFor(TraitsOf(CollectiveType::kPermute)),
      IsInvalidArgument("instance.implementation is Chosen, which does not do "
                        "all_reduce"));
}

TEST(DecidedImplementationTest, IsRefusedIfItNeedsAllMembersHere) {
  ImplementationTraits traits = TraitsOf(kWanted);
  traits.needs_one_process = true;
  EXPECT_THAT(AnswerFor(traits),
              IsInvalidArgument("which needs all members in one process"));
}

class CheckDecidedTest : public testing::Test {
 protected:
  CheckDecidedTest() {
    SimulatedCluster cluster({});
    cluster.StartAll();
    const CollectiveRequest request = AllReduceOf(7, 2, 1);
    const auto call = cluster.Request(0, 0, request);
    cluster.Request(1, 0, request);
    cluster.RunFor(absl::Seconds(1));
    params_ = call->params();
    instance_ = *params_.instance;
  }

  absl::Status Check(const std::string& wanted = "") const {
    return CheckDecided({.registry = &registry_}, *params_.group, *params_.task,
                        instance_, wanted);
  }

  CollectiveRegistry registry_;
  CollectiveParams params_;
  CollInstanceParams instance_;
};

TEST_F(CheckDecidedTest, ItIsTheOneThatWasNamed) {
  instance_.impl_details.implementation = "Chosen";
  EXPECT_THAT(Check("Chosen"), IsOk());
  EXPECT_THAT(Check("Other"),
              IsInvalidArgument("is Chosen, but Other was named"));
}

TEST_F(CheckDecidedTest, WhatIsNotKnownHereIsLeftToWhoLooksItUp) {
  instance_.impl_details.implementation = "UnheardOf";
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(CheckDecidedTest, SubdivisionsComeWithWhatHasThem) {
  ImplementationTraits traits = TraitsOf(kWanted);
  Register(registry_, "Whole", traits);
  traits.is_made_of_steps = traits.supports_subdivisions = true;
  Register(registry_, "Divided", traits);
  instance_.impl_details.implementation = "Divided";
  instance_.impl_details.subdiv_offsets = {};
  EXPECT_THAT(Check(), IsInvalidArgument("which needs subdivisions"));
  instance_.impl_details.subdiv_offsets = {0};
  EXPECT_THAT(Check(), IsOk());
  instance_.impl_details.implementation = "Whole";
  EXPECT_THAT(Check(), IsInvalidArgument("which has no subdivisions"));
}

constexpr GroupKey kGroup = 7;

// Answers at once that a barrier is settled, in which the device has rank 0.
class ResolverDouble : public ParamResolverInterface {
 public:
  void CompleteGroupAsync(const DeviceAttributes&, const CollectiveRequest&,
                          std::shared_ptr<Cancellation>,
                          GroupDone done) override {
    std::move(done)(absl::UnimplementedError("no group"));
  }
  void CompleteInstanceAsync(const DeviceAttributes& device,
                             std::shared_ptr<const CollectiveRequest>,
                             CallNumber, std::shared_ptr<Cancellation>,
                             Done done) override {
    CollGroupParams group;
    group.key = kGroup;
    group.generation = 1;
    group.members = {{device}, {device}};
    group.cancellation = std::make_shared<Cancellation>();
    group.resources = std::make_shared<GroupResources>();
    CollInstanceParams instance;
    instance.type = CollectiveType::kBarrier;
    instance.impl_details.implementation = implementation;
    instance.impl_details.dependencies = dependencies;
    CollectiveParams params;
    params.group = std::make_shared<const CollGroupParams>(std::move(group));
    params.instance =
        std::make_shared<const CollInstanceParams>(std::move(instance));
    params.task = std::make_shared<const CollTaskParams>(
        CollTaskParams{.is_local = {true, false}, .num_local = 1});
    std::move(done)(
        std::make_shared<const CollectiveParams>(std::move(params)));
  }
  std::string DescribeWaiting(const CollectiveRequest&) override { return ""; }
  void GiveUp(InstanceId instance, CallNumber number,
              const absl::Status& reason) override {
    EXPECT_EQ(instance.group_key, kGroup);
    EXPECT_EQ(number, CallNumber{});
    given_up = reason;
  }
  void EndGroup(GroupKey, absl::Status) override { has_ended = true; }

  std::string implementation = "UnheardOf";
  std::vector<InstanceId> dependencies;
  std::optional<absl::Status> given_up;
  bool has_ended = false;
};

absl::Status CallWith(const std::shared_ptr<ResolverDouble>& resolver) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto devices = DeviceManager::CreateCpu(
      /*num_tasks=*/1, /*devices_per_task=*/1, environment.get().random);
  if (!devices.ok()) return devices.status();
  const auto executor =
      MakeCollectiveExecutor({.environment = environment.get(),
                              .devices = devices->get(),
                              .param_resolver = resolver,
                              .peers = std::make_unique<LocalPeerAccess>()});
  auto request = std::make_shared<CollectiveRequest>();
  request->group_key = kGroup;
  request->group_size = 2;
  request->op = AllReduce{};
  request->shape = TensorShape::Vector(7);
  absl::Status status = absl::UnknownError("it has not ended");
  executor->ExecuteAsync(
      {.device = (*devices)->devices()[0], .request = std::move(request)},
      [&status](absl::Status ended) { status = std::move(ended); });
  return status;
}

// At this point the execution has no key to tell other tasks of a failure.
TEST(UnknownImplementationTest, IsGivenUpSoThatOtherTasksDoNotWait) {
  const auto resolver = std::make_shared<ResolverDouble>();
  const absl::Status status = CallWith(resolver);
  EXPECT_THAT(status, IsNotFound("UnheardOf"));
  EXPECT_EQ(resolver->given_up, status);
  EXPECT_FALSE(resolver->has_ended);
}

// Answers when the test says so.
class LateResolver : public ResolverDouble {
 public:
  void CompleteInstanceAsync(const DeviceAttributes& device,
                             std::shared_ptr<const CollectiveRequest> request,
                             CallNumber number,
                             std::shared_ptr<Cancellation> cancellation,
                             Done done) override {
    answer = [this, &device, request = std::move(request), number,
              cancellation = std::move(cancellation),
              done = std::move(done)]() mutable {
      ResolverDouble::CompleteInstanceAsync(device, std::move(request), number,
                                            std::move(cancellation),
                                            std::move(done));
    };
  }

  Work answer;
};

// Ends the step while a call checks its status, as another thread may.
class EndingPeers : public LocalPeerAccess {
 public:
  explicit EndingPeers(std::shared_ptr<CollectiveExecutor>* executor)
      : executor_(*executor) {}

  absl::Status StatusOf(const ExecKey&) const override {
    const auto ended = std::exchange(executor_, nullptr);
    if (ended != nullptr) ended->StartAbort(absl::CancelledError("enough"));
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<CollectiveExecutor>& executor_;
};

// The execution keeps the executor until the call leaves it, inside the wait
// for dependencies.
TEST(LastCallTest, EndsWhereItsStepEndsBeforeItWaitsForDependencies) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto devices = DeviceManager::CreateCpu(
      /*num_tasks=*/1, /*devices_per_task=*/1, environment.get().random);
  ASSERT_THAT(devices, IsOk());
  const auto resolver = std::make_shared<LateResolver>();
  resolver->implementation = "LocalBarrier";
  resolver->dependencies = {{kGroup, 2}};
  std::shared_ptr<CollectiveExecutor> executor;
  executor = MakeCollectiveExecutor(
      {.environment = environment.get(),
       .devices = devices->get(),
       .param_resolver = resolver,
       .peers = std::make_unique<EndingPeers>(&executor)});
  const std::weak_ptr<CollectiveExecutor> kept = executor;
  CollectiveRequest request = {
      .group_key = kGroup, .group_size = 2, .instance_key = 1, .op = Barrier{}};
  request.impl_details.dependencies = resolver->dependencies;
  absl::Status status = absl::UnknownError("it has not ended");
  executor->ExecuteAsync(
      {.device = (*devices)->devices()[0],
       .request = std::make_shared<CollectiveRequest>(std::move(request))},
      [&status](absl::Status ended) { status = std::move(ended); });
  std::move(resolver->answer)();
  EXPECT_THAT(status, StatusIs(StatusCode::kCancelled, "enough"));
  EXPECT_TRUE(kept.expired());
}

}  // namespace requests_test
}  // namespace tutti
