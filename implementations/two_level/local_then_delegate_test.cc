#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/collective/collective_delegate.h"
#include "framework/peer/local_peer_access.h"
#include "implementations/two_level/local_then.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {
namespace local_then_delegate_test {

using absl::StatusCode;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

constexpr int kNumDevices = 3;

REGISTER_COLLECTIVE(LocalThenCourier,
                    LocalThenDelegateFactory("Courier", "by courier"));

// A delegate of one process: no other process adds anything.
class Courier final : public CollectiveDelegate {
 public:
  absl::string_view name() const override { return name_; }

  absl::Status Prepare(CollectiveContext* context) override {
    group_sizes.push_back(context->params->group->size());
    context->implementation_state = this;
    return refusal;
  }

  void Run(const CollectiveContext& context, StatusCallback done) override {
    EXPECT_EQ(context.implementation_state, this);
    EXPECT_TRUE(context.params->instance->final_op.is_identity());
    EXPECT_EQ(OverlapOf(context.input, context.output), Overlap::kNone);
    Tensor output = context.output;
    std::memcpy(output.mutable_data(), context.input.data(),
                output.size_bytes());
    context.executor->Launched(context);
    std::move(done)(failure);
  }

  std::string DescribeWaiting(const CollGroupParams& /*group*/,
                              const ExecKey& /*exec*/) override {
    return "";
  }

  std::string name_ = "Courier";
  absl::Status refusal;
  absl::Status failure;
  std::vector<int> group_sizes;
};

class ByCourier final : public LocalPeerAccess {
 public:
  explicit ByCourier(Courier* courier) : courier_(courier) {}
  CollectiveDelegate* delegate() override { return courier_; }

 private:
  Courier* const courier_;
};

class LocalThenDelegateTest : public testing::Test {
 protected:
  CollectiveRequest Request(int64_t num_elements = 2) {
    CollectiveRequest request =
        job_.AllReduceRequest(num_elements, "LocalThenCourier");
    request.final_op = FinalOp::DivideByGroupSize();
    return request;
  }

  void ExpectAll(StatusCode code, const std::string& text) {
    for (const LocalJob::Call* call : job_.RunAll(Request())) {
      EXPECT_THAT(call->status, Optional(StatusIs(code, HasSubstr(text))));
    }
  }

  Courier courier_;
  LocalJob job_{
      {.devices_per_task = kNumDevices,
       .make_peer_access =
           [this](int64_t) { return std::make_unique<ByCourier>(&courier_); },
       .resolver = {.policy = {.delegate = "Courier"}}}};
};

TEST_F(LocalThenDelegateTest, TheDelegateKnowsTheFirstMembersAlone) {
  for (const int64_t num_elements : {2, 100'000, 1'000'000}) {
    CollectiveRequest request = Request(num_elements);
    request.instance_key = num_elements;
    for (const LocalJob::Call* call : job_.RunAll(request)) {
      ASSERT_THAT(call->status, Optional(IsOk()));
      EXPECT_THAT(call->result(), Each(2));
    }
  }
  EXPECT_THAT(courier_.group_sizes, ElementsAre(1, 1, 1));
}

TEST_F(LocalThenDelegateTest, WhatTheDelegateRefusesOrFailsEndsAllMembers) {
  courier_.failure = absl::UnavailableError("lost on the way");
  ExpectAll(StatusCode::kUnavailable, "lost on the way");
  courier_.failure = absl::OkStatus();
  courier_.refusal = absl::InvalidArgumentError("too heavy");
  LocalJob::Call& first = *job_.RunAll([this] {
    CollectiveRequest request = Request();
    request.instance_key = 2;
    return request;
  }())[0];
  EXPECT_THAT(first.status, Optional(StatusIs(StatusCode::kInvalidArgument,
                                              HasSubstr("too heavy"))));
}

TEST_F(LocalThenDelegateTest, AnotherDelegateIsAnError) {
  courier_.name_ = "Pigeon";
  ExpectAll(StatusCode::kFailedPrecondition,
            "Courier does not connect the processes of the group");
}

TEST_F(LocalThenDelegateTest, AMergeOpThatFailsEndsAllBeforeTheDelegate) {
  CollectiveRequest request = Request();
  request.merge_op = *MergeOp::Custom(
      {.name = "fails",
       .commutative = true,
       .apply = [](DType, const void*, const void*, void*, int64_t) {
         return absl::DataLossError("no merge");
       }});
  for (const LocalJob::Call* call : job_.RunAll(request)) {
    EXPECT_THAT(call->status, Optional(StatusIs(StatusCode::kDataLoss,
                                                HasSubstr("no merge"))));
  }
}

TEST_F(LocalThenDelegateTest, SegmentsArePackedForIt) {
  std::vector<std::vector<float>> values;
  std::vector<std::shared_ptr<const SegmentList>> lists;
  for (int device = 0; device < kNumDevices; ++device) {
    values.push_back({3, 6, 9});
  }
  const auto calls = job_.RunAll(Request(3), [&](CollectiveArgs& args) {
    std::vector<float>& own =
        values[static_cast<size_t>(args.device->attributes().name.index)];
    const Tensor all =
        *Tensor::Wrap(DType::kFloat32, TensorShape::Vector(3), own.data());
    lists.push_back(
        *SegmentList::Create({{*all.Slice(0, 1), *all.Slice(0, 1)},
                              {*all.Slice(1, 3), *all.Slice(1, 3)}}));
    args.input = Tensor();
    args.output = nullptr;
    args.segments = lists.back();
  });
  for (const LocalJob::Call* call : calls) {
    ASSERT_THAT(call->status, Optional(IsOk()));
  }
  EXPECT_THAT(values, Each(ElementsAre(3, 6, 9)));
}

TEST_F(LocalThenDelegateTest, WhatIsPreparedRunsAgainAndAgain) {
  std::vector<float> values(kNumDevices, 1);
  std::vector<Tensor> outputs(kNumDevices);
  std::vector<std::shared_ptr<PreparedCollective>> prepared;
  for (size_t device = 0; device < kNumDevices; ++device) {
    job_.executor().Prepare(
        {.device = job_.devices()[device],
         .request = std::make_shared<const CollectiveRequest>(Request(1)),
         .input = *Tensor::Wrap(DType::kFloat32, TensorShape::Vector(1),
                                &values[device]),
         .output = &outputs[device]},
        [&](auto made) {
          ASSERT_THAT(made.status(), IsOk());
          prepared.push_back(*std::move(made));
        });
  }
  job_.environment().RunAll();
  ASSERT_EQ(prepared.size(), kNumDevices);
  for (int i = 1; i <= 3; ++i) {
    values.assign(kNumDevices, static_cast<float>(i));
    int num_done = 0;
    for (const auto& member : prepared) {
      member->Start([&](const absl::Status& status) {
        EXPECT_THAT(status, IsOk());
        ++num_done;
      });
    }
    job_.environment().RunAll();
    EXPECT_EQ(num_done, kNumDevices);
    for (const auto& member : prepared) {
      float result = 0;
      std::memcpy(&result, member->output().data(), sizeof(result));
      EXPECT_EQ(result, i);
    }
  }
}

}  // namespace local_then_delegate_test
}  // namespace tutti
