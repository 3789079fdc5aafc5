// Parameters of an instance: members must make matching requests before any
// data moves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/peer/local_peer_access.h"
#include "resolvers/local/param_resolver_local.h"
#include "tests/doubles/failing_peer_access.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/implementation.h"

namespace tutti {
namespace instance_phase_test {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

class InstancePhaseTest : public testing::Test {
 protected:
  InstancePhaseTest()
      : job_({.devices_per_task = 3, .make_peer_access = [this](int64_t) {
                auto peers = std::make_unique<FailNthTransfer>(
                    std::make_unique<LocalPeerAccess>(), 0);
                transfers_ = peers.get();
                return peers;
              }}) {}

  // Changes member 1's request by `change`. Expects all members to fail with a
  // message that `message` matches, and no data to be sent.
  void ExpectDifferenceFound(
      CollectiveRequest request,
      const std::function<void(CollectiveRequest&)>& change,
      const testing::Matcher<std::string>& message) {
    CollectiveRequest changed = request;
    change(changed);
    const std::vector<LocalJob::Call*> calls = {&job_.Start(0, request),
                                                &job_.Start(1, changed),
                                                &job_.Start(2, request)};
    job_.environment().RunAll();
    for (const LocalJob::Call* call : calls) {
      ASSERT_EQ(call->num_done, 1);
      EXPECT_THAT(*call->status, StatusIs(StatusCode::kInvalidArgument,
                                          AllOf(message, HasSubstr("rank 1"))));
    }
    EXPECT_EQ(transfers_->num_transfers(), 0);
  }

  FailNthTransfer* transfers_ = nullptr;
  LocalJob job_;
};

TEST_F(InstancePhaseTest, DifferentTypeIsInvalidOnAllMembers) {
  ExpectDifferenceFound(
      job_.AllReduceRequest(6),
      [](auto& request) { request.op = ReduceScatter{}; },
      AllOf(HasSubstr("all_reduce"), HasSubstr("reduce_scatter"),
            HasSubstr("ranks 0, 2")));
}

TEST_F(InstancePhaseTest, DifferentDtypeIsInvalidOnAllMembers) {
  ExpectDifferenceFound(
      job_.AllReduceRequest(6),
      [](auto& request) { request.dtype = DType::kInt32; },
      AllOf(HasSubstr("dtype"), HasSubstr("float32"), HasSubstr("int32")));
}

TEST_F(InstancePhaseTest, DifferentShapeIsInvalidOnAllMembers) {
  ExpectDifferenceFound(
      job_.AllReduceRequest(6),
      [](auto& request) { request.shape = TensorShape::Vector(7); },
      AllOf(HasSubstr("shape"), HasSubstr("[6]"), HasSubstr("[7]")));
}

TEST_F(InstancePhaseTest, DifferentMergeOpIsInvalidOnAllMembers) {
  ExpectDifferenceFound(
      job_.AllReduceRequest(6),
      [](auto& request) { request.merge_op = ReductionKind::kMax; },
      AllOf(HasSubstr("merge op"), HasSubstr("sum"), HasSubstr("max")));
}

TEST_F(InstancePhaseTest, DifferentFinalOpIsInvalidOnAllMembers) {
  ExpectDifferenceFound(
      job_.AllReduceRequest(6),
      [](auto& request) { request.final_op = FinalOp::DivideByGroupSize(); },
      AllOf(HasSubstr("final op"), HasSubstr("identity"),
            HasSubstr("divide_by_group_size")));
}

TEST_F(InstancePhaseTest, DifferentRootIsInvalidOnAllMembers) {
  CollectiveRequest request = job_.AllReduceRequest(6);
  request.op = ReduceToRoot{0};
  ExpectDifferenceFound(
      request, [](auto& changed) { changed.op = ReduceToRoot{2}; },
      HasSubstr("root"));
}

TEST_F(InstancePhaseTest, DifferentPermutationIsInvalidOnAllMembers) {
  CollectiveRequest request = job_.AllReduceRequest(6);
  request.op = Permute{{1, 2, 0}};
  ExpectDifferenceFound(
      request, [](auto& changed) { changed.op = Permute{{2, 0, 1}}; },
      AllOf(HasSubstr("permutation"), HasSubstr("[1,2,0]"),
            HasSubstr("[2,0,1]")));
}

TEST_F(InstancePhaseTest, DifferentSubdivisionsAreInvalidOnAllMembers) {
  ExpectDifferenceFound(
      job_.AllReduceRequest(6),
      [](auto& request) { request.impl_details.subdiv_offsets = {0, -1}; },
      AllOf(HasSubstr("subdivision offsets"), HasSubstr("[0,-1]")));
}

TEST_F(InstancePhaseTest, DifferentListsOfRanksAreInvalidOnAllMembers) {
  ExpectDifferenceFound(
      job_.AllReduceRequest(6),
      [](auto& request) { request.impl_details.rank_list = {1, 0}; },
      AllOf(HasSubstr("list of ranks"), HasSubstr("[1,0]")));
}

TEST_F(InstancePhaseTest, DifferentHintIsInvalidOnAllMembers) {
  ExpectDifferenceFound(
      job_.AllReduceRequest(6),
      [](auto& request) { request.impl_details.implementation = "TreeReduce"; },
      AllOf(HasSubstr("implementation"), HasSubstr("TreeReduce")));
}

TEST_F(InstancePhaseTest,
       DifferentDemandsForDeterminismAreInvalidOnAllMembers) {
  ExpectDifferenceFound(
      job_.AllReduceRequest(6),
      [](auto& request) {
        request.impl_details.determinism = Determinism::kByRankOrder;
      },
      AllOf(HasSubstr("determinism"), HasSubstr("not guaranteed"),
            HasSubstr("by rank order")));
}

TEST_F(InstancePhaseTest, DifferentRowsAreInvalidUnlessTheGatherIsUneven) {
  CollectiveRequest request = job_.AllReduceRequest(6);
  request.op = AllGather{};
  ExpectDifferenceFound(
      request, [](auto& changed) { changed.shape = TensorShape::Vector(2); },
      HasSubstr("shape"));
  request.op = AllGather{.uneven = true};
  request.instance_key = 2;
  CollectiveRequest shorter = request;
  shorter.shape = TensorShape::Vector(2);
  job_.Start(0, request);
  job_.Start(1, shorter);
  const auto& last = job_.Start(2, request);
  job_.environment().RunAll();
  ASSERT_EQ(last.num_done, 1);
  ASSERT_THAT(*last.status, IsOk());
  EXPECT_EQ(last.output.num_elements(), 14);
}

void ExpectSources(LocalJob& job, std::vector<bool> is_source,
                   const testing::Matcher<std::string>& message) {
  std::vector<LocalJob::Call*> calls;
  for (size_t rank = 0; rank < is_source.size(); ++rank) {
    CollectiveRequest request = job.AllReduceRequest(4);
    request.op = Broadcast{.is_source = is_source[rank]};
    calls.push_back(&job.Start(static_cast<int>(rank), request));
  }
  job.environment().RunAll();
  for (const LocalJob::Call* call : calls) {
    ASSERT_EQ(call->num_done, 1);
    EXPECT_THAT(*call->status, StatusIs(StatusCode::kInvalidArgument, message));
  }
}

TEST_F(InstancePhaseTest, BroadcastWithNoSourceSaysSo) {
  ExpectSources(job_, {false, false, false},
                HasSubstr("none of its 3 members"));
}

TEST_F(InstancePhaseTest, BroadcastWithTwoSourcesSaysSo) {
  ExpectSources(job_, {true, false, true}, HasSubstr("ranks 0, 2 are sources"));
}

TEST_F(InstancePhaseTest, UnknownImplementationListsTheKnownOnes) {
  CollectiveRequest request = job_.AllReduceRequest(4);
  request.impl_details.implementation = "Fastest";
  for (const LocalJob::Call* call : job_.RunAll(request)) {
    ASSERT_EQ(call->num_done, 1);
    EXPECT_THAT(*call->status,
                StatusIs(StatusCode::kNotFound,
                         AllOf(HasSubstr("Fastest"), HasSubstr("RingReduce"))));
  }
}

TEST_F(InstancePhaseTest, ImplementationThatCannotServeListsThoseThatCan) {
  CollectiveRequest request = job_.AllReduceRequest(4);
  request.impl_details.implementation = "RingGather";
  for (const LocalJob::Call* call : job_.RunAll(request)) {
    ASSERT_EQ(call->num_done, 1);
    EXPECT_THAT(*call->status,
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("RingGather"),
                               HasSubstr("does not do all_reduce"),
                               HasSubstr("RingReduce, ShuffleReduce, "),
                               HasSubstr(", TreeReduce"))));
  }
}

TEST_F(InstancePhaseTest, MergeOpThatDoesNotCommuteIsServedByReduceScatter) {
  CollectiveRequest request = job_.AllReduceRequest(6);
  request.op = ReduceScatter{};
  // Concatenates the digits of both numbers.
  request.merge_op =
      *MergeOp::Custom({.name = "append",
                        .apply = [](DType, const void* left, const void* right,
                                    void* into, int64_t num_elements) {
                          for (int64_t i = 0; i < num_elements; ++i) {
                            const auto digits = [i](const void* values) {
                              return static_cast<const float*>(values)[i];
                            };
                            const float shift = digits(right) < 10 ? 10 : 100;
                            static_cast<float*>(into)[i] =
                                digits(left) * shift + digits(right);
                          }
                          return absl::OkStatus();
                        }});
  for (const LocalJob::Call* call : job_.RunAll(request)) {
    ASSERT_EQ(call->num_done, 1);
    ASSERT_THAT(*call->status, IsOk());
    EXPECT_THAT(call->result(), testing::ElementsAre(123, 123));
  }
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
      resolver->CompleteParamsAsync(
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
    resolver->CompleteParamsAsync(
        {.name = {"worker", 0, 0, "CPU", rank}, .incarnation = 1},
        std::make_shared<const CollectiveRequest>(std::move(request)),
        CallNumber{}, nullptr,
        [&](auto params) { statuses.push_back(params.status()); });
  }
  ASSERT_EQ(statuses.size(), static_cast<size_t>(kSize));
  EXPECT_THAT(statuses[0],
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("members differ in permutation"),
                             HasSubstr("rank 7 has [8,9,10,"),
                             HasSubstr("and 1992 more have other values"))));
  EXPECT_LT(statuses[0].message().size(), 1500u);
}

TEST_F(InstancePhaseTest, TheMostTellingDifferenceIsNamed) {
  std::vector<CollectiveRequest> requests(3, job_.AllReduceRequest(6));
  requests[1].dtype = DType::kInt32;
  requests[2].op = Barrier{};
  std::vector<LocalJob::Call*> calls;
  for (int rank : {0, 1, 2}) calls.push_back(&job_.Start(rank, requests[rank]));
  job_.environment().RunAll();
  for (const LocalJob::Call* call : calls) {
    EXPECT_THAT(*call->status,
                StatusIs(StatusCode::kInvalidArgument,
                         HasSubstr("differ in collective: ranks 0, 1 have "
                                   "all_reduce; rank 2 has barrier")));
  }
}

TEST_F(InstancePhaseTest, LaterCallThatAsksForSomethingElseFailsOnAllMembers) {
  const CollectiveRequest request = job_.AllReduceRequest(6);
  job_.RunAll(request);
  CollectiveRequest changed = request;
  changed.shape = TensorShape::Vector(7);
  const std::vector<LocalJob::Call*> calls = {&job_.Start(0, request),
                                              &job_.Start(1, changed),
                                              &job_.Start(2, request)};
  job_.environment().RunAll();
  for (const LocalJob::Call* call : calls) {
    ASSERT_EQ(call->num_done, 1);
    EXPECT_THAT(*call->status,
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("[6]"), HasSubstr("[7]"))));
  }
  for (const LocalJob::Call* call : job_.RunAll(request)) {
    EXPECT_THAT(*call->status, IsOk());
  }
}

TEST_F(InstancePhaseTest, FailedInstanceCanBeAskedForAgain) {
  CollectiveRequest request = job_.AllReduceRequest(6);
  ExpectDifferenceFound(
      request, [](auto& changed) { changed.dtype = DType::kFloat64; },
      HasSubstr("dtype"));
  for (const LocalJob::Call* call : job_.RunAll(request)) {
    ASSERT_EQ(call->num_done, 1);
    EXPECT_THAT(*call->status, IsOk());
  }
}

TEST(CachingTest, UniqueInstanceKeysDoNotGrowMemoryWithoutBound) {
  LocalJob job({.devices_per_task = 2, .resolver = {.max_entries = 128}});
  CollectiveRequest request = job.AllReduceRequest(2);
  for (int i = 0; i < 5000; ++i) {
    request.instance_key = i;
    for (const LocalJob::Call* call : job.RunAll(request)) {
      ASSERT_THAT(*call->status, IsOk());
    }
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
  for (const LocalJob::Call* call : {&same, &changed}) {
    ASSERT_EQ(call->num_done, 1);
    EXPECT_THAT(*call->status,
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("shape [4]"), HasSubstr("[5]"))));
  }
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

}  // namespace instance_phase_test
}  // namespace tutti
