// Members that allow it get one output, written once. If a member does not
// allow it, each member gets a separate output.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/reduce/reduction_reference_testing.h"
#include "framework/reduce/reduction_test_data.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/executor.h"

namespace tutti {
namespace shared_output_test {

using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

constexpr int kNumDevices = 3;

Bytes BytesOf(const Tensor& tensor) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(tensor.data());
  return Bytes(bytes, bytes + tensor.size_bytes());
}

std::vector<float> FloatsOf(const Tensor& tensor) {
  std::vector<float> floats(static_cast<size_t>(tensor.num_elements()));
  std::memcpy(floats.data(), tensor.data(), tensor.size_bytes());
  return floats;
}

// Dtype and elements of an input.
using Param = std::tuple<DType, int64_t>;

class SharedSumTest : public testing::TestWithParam<Param> {};

TEST_P(SharedSumTest, AllGetOneBufferWithTheBitsOfSeparateOnes) {
  const auto [dtype, num_elements] = GetParam();
  LocalJob job({.devices_per_task = kNumDevices});
  CollectiveRequest request = job.AllReduceRequest(num_elements);
  request.dtype = dtype;
  std::vector<Bytes> inputs;
  std::vector<const uint8_t*> pointers;
  for (uint64_t seed = 0; seed < kNumDevices; ++seed) {
    inputs.push_back(
        RandomElements(dtype, static_cast<size_t>(num_elements), seed));
  }
  std::vector<LocalJob::Call*> calls;
  for (int device = 0; device < kNumDevices; ++device) {
    Bytes& input = inputs[static_cast<size_t>(device)];
    pointers.push_back(input.data());
    calls.push_back(&job.Start(device, request, [&](CollectiveArgs& args) {
      args.input = *Tensor::Wrap(dtype, request.shape, input.data());
      args.allow_shared_output = true;
    }));
  }
  job.environment().RunAll();
  Bytes expected(inputs[0].size());
  ReferenceReduceMany(ReductionKind::kSum, dtype, pointers, expected.data(),
                      static_cast<size_t>(num_elements), /*divisor=*/1);
  const std::byte* const place = calls[0]->output.data();
  for (LocalJob::Call* call : calls) {
    ASSERT_THAT(call->status, testing::Optional(IsOk()));
    EXPECT_EQ(call->output.data(), place);
    EXPECT_TRUE(BytesOf(call->output) == expected);
    call->output = Tensor();  // Members keep the buffer.
    if (call == calls[2]) break;
    EXPECT_TRUE(BytesOf(calls[2]->output) == expected);
  }
}

// The larger size is cut into slices, and written past the caches.
INSTANTIATE_TEST_SUITE_P(
    All, SharedSumTest,
    testing::Combine(testing::Values(DType::kFloat16, DType::kBFloat16,
                                     DType::kFloat32, DType::kFloat64,
                                     DType::kInt8, DType::kUint8, DType::kInt32,
                                     DType::kInt64),
                     testing::Values<int64_t>(9, 1'100'001)),
    [](const auto& info) {
      return std::string(Name(std::get<0>(info.param))) + "_" +
             std::to_string(std::get<1>(info.param));
    });

class SharedOutputTest : public testing::Test {
 protected:
  static void Allow(CollectiveArgs& args) { args.allow_shared_output = true; }

  static void ExpectResults(const std::vector<LocalJob::Call*>& calls,
                            const std::vector<float>& result) {
    for (const LocalJob::Call* call : calls) {
      ASSERT_THAT(call->status, testing::Optional(IsOk()));
      EXPECT_EQ(call->result(), result);
    }
  }

  static bool AllShare(const std::vector<LocalJob::Call*>& calls) {
    return std::all_of(calls.begin(), calls.end(), [&](const auto* call) {
      return call->output.data() == calls[0]->output.data();
    });
  }

  static void ExpectNoneShare(const std::vector<LocalJob::Call*>& calls) {
    EXPECT_NE(calls[0]->output.data(), calls[1]->output.data());
    EXPECT_NE(calls[0]->output.data(), calls[2]->output.data());
    EXPECT_NE(calls[1]->output.data(), calls[2]->output.data());
  }

  LocalJob job_{{.devices_per_task = kNumDevices}};
};

TEST_F(SharedOutputTest, WhereOneMemberDoesNotAllowItEachGetsItsOwn) {
  const auto calls =
      job_.RunAll(job_.AllReduceRequest(2), [&](CollectiveArgs& args) {
        args.allow_shared_output = args.device != job_.devices()[1];
      });
  ExpectResults(calls, {6, 6});
  ExpectNoneShare(calls);
}

TEST_F(SharedOutputTest, WhereOneMemberRunsInPlaceEachGetsItsOwn) {
  const auto calls =
      job_.RunAll(job_.AllReduceRequest(2), [&](CollectiveArgs& args) {
        Allow(args);
        if (args.device == job_.devices()[2]) *args.output = args.input;
      });
  ExpectResults(calls, {6, 6});
  ExpectNoneShare(calls);
  EXPECT_THAT(calls[2]->input, ElementsAre(6, 6));
}

TEST_F(SharedOutputTest, AlgorithmsThatCannotShareGiveEachItsOwn) {
  const auto calls = job_.RunAll(job_.AllReduceRequest(2, "RingReduce"), Allow);
  ExpectResults(calls, {6, 6});
  ExpectNoneShare(calls);
}

TEST_F(SharedOutputTest, GathersShareOne) {
  CollectiveRequest request = job_.AllReduceRequest(2);
  request.op = AllGather{};
  const auto calls = job_.RunAll(request, Allow);
  ExpectResults(calls, {1, 1, 2, 2, 3, 3});
  EXPECT_TRUE(AllShare(calls));
}

TEST_F(SharedOutputTest, BroadcastsShareOneThatIsNotTheSourcesInput) {
  CollectiveRequest request = job_.AllReduceRequest(2);
  std::vector<LocalJob::Call*> calls;
  for (int device = 0; device < kNumDevices; ++device) {
    request.op = Broadcast{.is_source = device == 1};
    calls.push_back(&job_.Start(device, request, Allow));
  }
  ExpectResults(calls, {2, 2});
  EXPECT_TRUE(AllShare(calls));
  EXPECT_NE(calls[0]->output.data(),
            reinterpret_cast<const std::byte*>(calls[1]->input.data()));
}

TEST_F(SharedOutputTest, WhereOutputsDifferTheyAreNotShared) {
  CollectiveRequest request = job_.AllReduceRequest(3);
  request.op = ReduceScatter{};
  const auto calls = job_.RunAll(request, Allow);
  ExpectResults(calls, {6});
  ExpectNoneShare(calls);
}

TEST_F(SharedOutputTest, TheRootOfAReductionGetsItsOutput) {
  CollectiveRequest request = job_.AllReduceRequest(2);
  request.op = ReduceToRoot{.root = 1};
  const auto calls = job_.RunAll(request, [&](CollectiveArgs& args) {
    Allow(args);
    if (args.device != job_.devices()[1]) args.output = nullptr;
  });
  ExpectResults({calls[1]}, {6, 6});
}

TEST_F(SharedOutputTest, WithoutMemoryForItAllMembersGetTheError) {
  CollectiveRequest request = job_.AllReduceRequest(1);
  request.shape = TensorShape::Vector(int64_t{1} << 59);
  std::vector<Tensor> outputs(kNumDevices);
  std::vector<absl::Status> ended;
  std::byte unread[1];
  for (size_t i = 0; i < kNumDevices; ++i) {
    job_.executor().ExecuteAsync(
        {.device = job_.devices()[i],
         .request = std::make_shared<const CollectiveRequest>(request),
         .input = *Tensor::Wrap(DType::kFloat32, request.shape, unread),
         .output = &outputs[i],
         .allow_shared_output = true},
        [&](absl::Status status) { ended.push_back(std::move(status)); });
  }
  EXPECT_THAT(ended, SizeIs(kNumDevices));
  EXPECT_THAT(ended, Each(IsResourceExhausted("no memory")));
}

TEST_F(SharedOutputTest, WhatFailsBeforeAllAreHereSetsNoOutput) {
  const CollectiveRequest request = job_.AllReduceRequest(2);
  job_.RunAll(request);  // Settles the instance.
  const auto& early = job_.Start(0, request, Allow);
  job_.executor().StartAbort(absl::DataLossError("lost"));
  const auto& late = job_.Start(1, request, Allow);
  job_.environment().RunAll();
  for (const auto* call : {&early, &late}) {
    EXPECT_THAT(call->status, testing::Optional(IsDataLoss("lost")));
    EXPECT_FALSE(call->output.is_set());
  }
}

class PreparedSharedOutputTest : public SharedOutputTest {
 protected:
  PreparedSharedOutputTest() {
    for (size_t i = 0; i < kNumDevices; ++i) {
      inputs_[i] = {static_cast<float>(i + 1)};
      job_.executor().Prepare(Args(i), [&](auto prepared) {
        ASSERT_THAT(prepared.status(), IsOk());
        prepared_.push_back(*std::move(prepared));
      });
    }
  }

  CollectiveArgs Args(size_t device) {
    return {.device = job_.devices()[device],
            .request = request_,
            .input = *Tensor::Wrap(DType::kFloat32, request_->shape,
                                   inputs_[device].data()),
            .output = &outputs_[device],
            .allow_shared_output = true};
  }

  void Start(size_t device, PreparedCollective::Limits limits = {}) {
    prepared_[device]->Start(std::move(limits), CountOk());
  }
  void StartFreely(size_t device) { prepared_[device]->Start(CountOk()); }
  StatusCallback CountOk() {
    return [this](const absl::Status& status) { num_ok_ += status.ok(); };
  }

  // Addresses of the prepared collectives' outputs.
  std::array<const std::byte*, kNumDevices> Places() const {
    return {prepared_[0]->output().data(), prepared_[1]->output().data(),
            prepared_[2]->output().data()};
  }

  const std::shared_ptr<const CollectiveRequest> request_ =
      std::make_shared<const CollectiveRequest>(job_.AllReduceRequest(1));
  std::array<std::array<float, 1>, kNumDevices> inputs_;
  std::array<Tensor, kNumDevices> outputs_;
  std::vector<std::shared_ptr<PreparedCollective>> prepared_;
  int num_ok_ = 0;
};

TEST_F(PreparedSharedOutputTest, StartsWriteTheSameBufferAgain) {
  ASSERT_THAT(prepared_, SizeIs(kNumDevices));
  for (const auto& prepared : prepared_) {
    EXPECT_FALSE(prepared->output().is_set());
  }
  for (size_t i = 0; i < kNumDevices; ++i) StartFreely(i);
  const auto places = Places();
  EXPECT_THAT(places, Each(places[0]));
  for (float more = 0; more < 3; ++more) {
    inputs_[1][0] = 10 + more;
    for (size_t i = 0; i < kNumDevices; ++i) StartFreely(i);
    EXPECT_EQ(Places(), places);
    EXPECT_THAT(FloatsOf(prepared_[2]->output()), ElementsAre(14 + more));
  }
  EXPECT_EQ(num_ok_, 4 * kNumDevices);
}

TEST_F(PreparedSharedOutputTest, WhoCallsWithoutAllowingItKeepsWhatWasShared) {
  for (size_t i = 0; i < kNumDevices; ++i) StartFreely(i);
  const Tensor kept = prepared_[1]->output();
  inputs_[0][0] = 11;
  StartFreely(0);
  CollectiveArgs args = Args(1);
  args.allow_shared_output = false;
  job_.executor().ExecuteAsync(std::move(args), CountOk());
  StartFreely(2);
  EXPECT_EQ(num_ok_, 2 * kNumDevices);
  EXPECT_THAT(FloatsOf(kept), ElementsAre(6));
  for (const Tensor& output :
       {prepared_[0]->output(), outputs_[1], prepared_[2]->output()}) {
    EXPECT_THAT(FloatsOf(output), ElementsAre(16));
    EXPECT_NE(output.data(), kept.data());
  }
}

TEST_F(PreparedSharedOutputTest, StartsWithLimitsShareToo) {
  for (int i = 0; i < 2; ++i) {
    StartFreely(0);
    Start(1, {.cancellation = std::make_shared<Cancellation>()});
    StartFreely(2);
    EXPECT_THAT(Places(), Each(Places()[0]));
    EXPECT_THAT(FloatsOf(prepared_[1]->output()), ElementsAre(6));
  }
  EXPECT_EQ(num_ok_, 2 * kNumDevices);
}

}  // namespace shared_output_test
}  // namespace tutti
