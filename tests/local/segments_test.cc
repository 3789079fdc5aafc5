// Tensors reduced together give the same bits, ends and errors as one tensor
// that holds all of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/reduce/reduction_test_data.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

namespace tutti {
namespace segments_test {

using testing::ElementsAre;
using testing::Optional;
using testing::SizeIs;

constexpr int kNumDevices = 3;

// A vector that owns a copy of `bytes`.
Tensor TensorOf(DType dtype, const uint8_t* bytes, int64_t num_elements) {
  Tensor tensor = *Tensor::Allocate(dtype, TensorShape::Vector(num_elements));
  if (num_elements > 0) {
    std::memcpy(tensor.mutable_data(), bytes, tensor.size_bytes());
  }
  return tensor;
}

Tensor Floats(const std::vector<float>& values) {
  return TensorOf(DType::kFloat32,
                  reinterpret_cast<const uint8_t*>(values.data()),
                  static_cast<int64_t>(values.size()));
}

std::vector<float> FloatsOf(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  std::memcpy(values.data(), tensor.data(), tensor.size_bytes());
  return values;
}

// Cuts `all` into `num_segments` tensors, some of them empty; every second one
// is in place.
std::vector<SegmentList::Segment> Cut(DType dtype, const Bytes& all,
                                      int num_segments) {
  const auto element = static_cast<int64_t>(SizeOf(dtype));
  const int64_t num_elements = static_cast<int64_t>(all.size()) / element;
  std::vector<SegmentList::Segment> segments;
  for (int64_t i = 0; i < num_segments; ++i) {
    const int64_t begin = num_elements * i * i / (num_segments * num_segments);
    const int64_t end =
        num_elements * (i + 1) * (i + 1) / (num_segments * num_segments);
    const Tensor input =
        TensorOf(dtype, all.data() + begin * element, end - begin);
    segments.push_back(
        {input, i % 2 == 0 ? input
                           : *Tensor::Allocate(
                                 dtype, TensorShape::Vector(end - begin))});
  }
  return segments;
}

Bytes OutputsOf(const SegmentList& list) {
  Bytes all;
  for (const auto& [input, output] : list.segments()) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(output.data());
    all.insert(all.end(), bytes, bytes + output.size_bytes());
  }
  return all;
}

std::shared_ptr<const SegmentList> ListOf(
    std::vector<SegmentList::Segment> segments) {
  auto list = SegmentList::Create(std::move(segments));
  EXPECT_THAT(list.status(), IsOk());
  return *std::move(list);
}

void SetSegments(CollectiveArgs& args,
                 std::shared_ptr<const SegmentList> segments) {
  args.input = Tensor();
  args.output = nullptr;
  args.segments = std::move(segments);
}

// Algorithm, dtype and total number of elements. LocalReduce takes segments in
// place; for other algorithms they are packed.
using Param = std::tuple<std::string, DType, int64_t>;

class SegmentsSumTest : public testing::TestWithParam<Param> {
 protected:
  SegmentsSumTest() {
    const auto& [algorithm, dtype, num_elements] = GetParam();
    request_ = job_.AllReduceRequest(num_elements, algorithm);
    request_.dtype = dtype;
    if (IsFloating(dtype)) request_.final_op = FinalOp::DivideByGroupSize();
    for (uint64_t seed = 0; seed < kNumDevices; ++seed) {
      inputs_.push_back(
          RandomElements(dtype, static_cast<size_t>(num_elements), seed));
    }
  }

  // Result of one tensor per member.
  Bytes Expected() {
    CollectiveRequest request = request_;
    request.instance_key = 2;
    std::vector<LocalJob::Call*> calls;
    for (int device = 0; device < kNumDevices; ++device) {
      Bytes& input = inputs_[static_cast<size_t>(device)];
      calls.push_back(&job_.Start(device, request, [&](CollectiveArgs& args) {
        args.input = *Tensor::Wrap(request.dtype, request.shape, input.data());
      }));
    }
    job_.environment().RunAll();
    EXPECT_THAT(calls[0]->status, Optional(IsOk()));
    const auto* const bytes =
        reinterpret_cast<const uint8_t*>(calls[0]->output.data());
    return Bytes(bytes, bytes + calls[0]->output.size_bytes());
  }

  std::shared_ptr<const SegmentList> SegmentsOf(int device, int num_segments) {
    return ListOf(Cut(request_.dtype, inputs_[static_cast<size_t>(device)],
                      num_segments));
  }

  LocalJob job_{{.devices_per_task = kNumDevices}};
  CollectiveRequest request_;
  std::vector<Bytes> inputs_;
};

TEST_P(SegmentsSumTest, MembersCutAsTheyLikeAndGetTheBitsOfOneTensor) {
  const Bytes expected = Expected();
  std::vector<std::shared_ptr<const SegmentList>> lists;
  std::vector<LocalJob::Call*> calls;
  for (int device = 0; device < kNumDevices; ++device) {
    lists.push_back(SegmentsOf(device, 3 + 4 * device));
    calls.push_back(&job_.Start(device, request_, [&](CollectiveArgs& args) {
      SetSegments(args, lists.back());
    }));
  }
  job_.environment().RunAll();
  for (size_t device = 0; device < kNumDevices; ++device) {
    ASSERT_THAT(calls[device]->status, Optional(IsOk()));
    EXPECT_TRUE(OutputsOf(*lists[device]) == expected) << device;
  }
}

TEST_P(SegmentsSumTest, AMemberWithOneTensorMeetsOthersWithSegments) {
  const Bytes expected = Expected();
  const auto list = SegmentsOf(0, 5);
  std::vector<LocalJob::Call*> calls;
  for (int device = 0; device < kNumDevices; ++device) {
    Bytes& input = inputs_[static_cast<size_t>(device)];
    calls.push_back(&job_.Start(device, request_, [&](CollectiveArgs& args) {
      if (device == 0) return SetSegments(args, list);
      args.input = *Tensor::Wrap(request_.dtype, request_.shape, input.data());
    }));
  }
  job_.environment().RunAll();
  ExpectEnds(calls, IsOk());
  EXPECT_TRUE(OutputsOf(*list) == expected);
  EXPECT_EQ(
      std::memcmp(calls[1]->output.data(), expected.data(), expected.size()),
      0);
}

// The largest size is cut into slices and written past the caches.
INSTANTIATE_TEST_SUITE_P(
    All, SegmentsSumTest,
    testing::Combine(
        testing::Values("LocalReduce", "RingReduce", "RecursiveDoublingReduce"),
        testing::Values(DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                        DType::kFloat64, DType::kInt8, DType::kInt64),
        testing::Values<int64_t>(1, 9, 1'100'001)),
    [](const auto& info) {
      return std::get<0>(info.param) + "_" +
             std::string(Name(std::get<1>(info.param))) + "_" +
             std::to_string(std::get<2>(info.param));
    });

// Parameter: the algorithm.
class SegmentsTest : public testing::TestWithParam<std::string> {
 protected:
  CollectiveRequest Request(int64_t num_elements = 3) const {
    return job_.AllReduceRequest(num_elements, GetParam());
  }

  // {d} and {2 d, 3 d}, with d = device + 1.
  static std::shared_ptr<const SegmentList> TwoSegments(int device) {
    const auto value = static_cast<float>(device + 1);
    return ListOf({{Floats({value}), Floats({0})},
                   {Floats({2 * value, 3 * value}), Floats({0, 0})}});
  }

  static void ExpectSums(const SegmentList& list) {
    EXPECT_THAT(FloatsOf(list.segments()[0].output), ElementsAre(6));
    EXPECT_THAT(FloatsOf(list.segments()[1].output), ElementsAre(12, 18));
  }

  LocalJob job_{{.devices_per_task = kNumDevices}};
};

TEST_P(SegmentsTest, WhatIsPreparedRunsAgainAndAgain) {
  std::vector<std::shared_ptr<const SegmentList>> lists;
  std::vector<std::shared_ptr<PreparedCollective>> prepared;
  for (int device = 0; device < kNumDevices; ++device) {
    lists.push_back(TwoSegments(device));
    job_.executor().Prepare(
        {.device = job_.devices()[static_cast<size_t>(device)],
         .request = std::make_shared<const CollectiveRequest>(Request()),
         .segments = lists.back()},
        [&](auto made) {
          ASSERT_THAT(made.status(), IsOk());
          prepared.push_back(*std::move(made));
        });
  }
  job_.environment().RunAll();
  ASSERT_THAT(prepared, SizeIs(kNumDevices));
  for (int i = 0; i < 3; ++i) {
    int num_done = 0;
    for (const auto& member : prepared) {
      member->Start([&](const absl::Status& status) {
        EXPECT_THAT(status, IsOk());
        ++num_done;
      });
    }
    job_.environment().RunAll();
    EXPECT_EQ(num_done, kNumDevices);
    for (const auto& list : lists) {
      ExpectSums(*list);
      for (const auto& [input, output] : list->segments()) {
        Tensor written = output;
        std::memset(written.mutable_data(), 0, written.size_bytes());
      }
    }
    EXPECT_FALSE(prepared[0]->output().is_set());
  }
}

TEST_P(SegmentsTest, AnotherNumberOfElementsThanTheRequestsEndsTheExecution) {
  const auto calls = job_.RunAll(Request(4), [&](CollectiveArgs& args) {
    if (args.device != job_.devices()[1]) return;
    SetSegments(args, TwoSegments(1));
  });
  ExpectEnds(calls,
             IsInvalidArgument(
                 "device:CPU:1): the segments have 3 elements of float32, "
                 "wanted 4 of float32"));
}

TEST_P(SegmentsTest, AnotherDTypeThanTheRequestsEndsTheExecution) {
  CollectiveRequest request = Request();
  request.dtype = DType::kInt32;
  const auto calls = job_.RunAll(request, [&](CollectiveArgs& args) {
    SetSegments(args, TwoSegments(0));
  });
  ExpectEnds(calls,
             IsInvalidArgument("3 elements of float32, wanted 3 of int32"));
}

class SegmentsRecorder : public CollectiveObserver {
 public:
  void OnFinished(const Finished& finished) override {
    EXPECT_FALSE(finished.output.is_set());
    ASSERT_NE(finished.segments, nullptr);
    sums.push_back(FloatsOf(finished.segments->segments()[1].output));
  }

  std::vector<std::vector<float>> sums;
};

TEST_P(SegmentsTest, AnObserverSeesTheSegments) {
  const auto recorder = std::make_shared<SegmentsRecorder>();
  job_.manager().SetObserver(recorder);
  job_.RunAll(Request(), [&](CollectiveArgs& args) {
    SetSegments(args, TwoSegments(args.device->attributes().name.index));
  });
  EXPECT_THAT(recorder->sums, testing::UnorderedElementsAre(
                                  ElementsAre(12, 18), ElementsAre(12, 18),
                                  ElementsAre(12, 18)));
}

INSTANTIATE_TEST_SUITE_P(All, SegmentsTest,
                         testing::Values("LocalReduce", "TreeReduce"),
                         [](const auto& info) { return info.param; });

// Counts the bytes allocated.
class CountingDevice final : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;

  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override {
    auto tensor = CpuDevice::Allocate(dtype, shape);
    if (tensor.ok()) num_bytes_ += tensor->size_bytes();
    return tensor;
  }

  size_t num_bytes() const { return num_bytes_; }

 private:
  size_t num_bytes_ = 0;  // Used by one thread only.
};

// Bytes that each device allocates to all-reduce segments of `num_elements`
// floats each.
std::vector<size_t> BytesToReduce(const std::string& algorithm,
                                  int64_t num_elements) {
  SimulatedEnvironment environment(/*seed=*/1);
  std::vector<std::unique_ptr<Device>> made;
  std::vector<const CountingDevice*> devices;
  for (int index = 0; index < kNumDevices; ++index) {
    auto device = std::make_unique<CountingDevice>(DeviceAttributes{
        .name = {"localhost", 0, 0, "CPU", index}, .incarnation = 1});
    devices.push_back(device.get());
    made.push_back(std::move(device));
  }
  const auto manager = *DeviceManager::Create(std::move(made));
  const auto executors =
      *CreateLocalExecutorMgr(environment.get(), manager.get());
  CollectiveRequest request;
  request.group_key = 1;
  request.group_size = kNumDevices;
  request.instance_key = 1;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(num_elements);
  request.impl_details.implementation = algorithm;
  int num_ended = 0;
  for (Device* const device : manager->devices()) {
    const Bytes zeros(static_cast<size_t>(num_elements) * sizeof(float));
    executors->FindOrCreate(1)->ExecuteAsync(
        {.device = device,
         .request = std::make_shared<const CollectiveRequest>(request),
         .segments = ListOf(Cut(DType::kFloat32, zeros, 5))},
        [&](const absl::Status& status) {
          EXPECT_THAT(status, IsOk());
          ++num_ended;
        });
  }
  environment.RunAll();
  EXPECT_EQ(num_ended, kNumDevices);
  std::vector<size_t> bytes;
  for (const CountingDevice* device : devices) {
    bytes.push_back(device->num_bytes());
  }
  return bytes;
}

TEST(SegmentsCallTest, WithinAProcessTheyAreNotPacked) {
  for (const int64_t num_elements : {9, 1'100'001}) {
    SCOPED_TRACE(num_elements);
    EXPECT_THAT(BytesToReduce("LocalReduce", num_elements),
                ElementsAre(0, 0, 0));
    EXPECT_THAT(BytesToReduce("RingReduce", num_elements),
                testing::Each(num_elements * sizeof(float)));
  }
}

TEST(SegmentsCallTest, OnlyAllReduceTakesThem) {
  LocalJob job({.devices_per_task = 2});
  CollectiveRequest request = job.AllReduceRequest(1);
  request.op = ReduceToRoot{.root = 0};
  const auto list = ListOf({{Floats({1}), Floats({0})}});
  ExpectEnds(job.RunAll(request,
                        [&](CollectiveArgs& args) { SetSegments(args, list); }),
             IsInvalidArgument("only all_reduce takes segments"));
}

TEST_P(SegmentsTest, ThereMayBeNoElementsAtAll) {
  const auto calls = job_.RunAll(Request(0), [&](CollectiveArgs& args) {
    SetSegments(args, ListOf({{Floats({}), Floats({})}}));
  });
  ExpectEnds(calls, IsOk());
}

TEST_P(SegmentsTest, OpsOfTheCallerReduceThem) {
  CollectiveRequest request = Request();
  const auto merge = [](DType, const void* left, const void* right, void* into,
                        int64_t num_elements) {
    for (int64_t i = 0; i < num_elements; ++i) {
      static_cast<float*>(into)[i] = static_cast<const float*>(left)[i] * 10 +
                                     static_cast<const float*>(right)[i];
    }
    return absl::OkStatus();
  };
  request.merge_op =
      *MergeOp::Custom({.name = "append a digit", .apply = merge});
  std::vector<std::shared_ptr<const SegmentList>> lists;
  job_.RunAll(request, [&](CollectiveArgs& args) {
    lists.push_back(TwoSegments(args.device->attributes().name.index));
    SetSegments(args, lists.back());
  });
  EXPECT_THAT(FloatsOf(lists[2]->segments()[0].output), ElementsAre(123));
  EXPECT_THAT(FloatsOf(lists[2]->segments()[1].output), ElementsAre(246, 369));
}

TEST_P(SegmentsTest, ACancellationEndsThoseWhoWaitAndFreesTheTensors) {
  const auto cancellation = std::make_shared<Cancellation>();
  std::weak_ptr<const SegmentList> list;
  const LocalJob::Call& call =
      job_.Start(0, Request(), [&](CollectiveArgs& args) {
        auto segments = TwoSegments(0);
        list = segments;
        SetSegments(args, std::move(segments));
        args.cancellation = cancellation;
      });
  EXPECT_TRUE(call.pending());
  cancellation->Cancel(absl::AbortedError("not wanted"));
  job_.environment().RunAll();
  EXPECT_THAT(call.status, Optional(IsAborted("not wanted")));
  EXPECT_TRUE(list.expired());
}

TEST(SegmentsCallTest, ThereIsNoInputOrOutputBesides) {
  LocalJob job({.devices_per_task = 1});
  const auto list = ListOf({{Floats({1}), Floats({0})}});
  const LocalJob::Call& with_both =
      job.Start(0, job.AllReduceRequest(1),
                [&](CollectiveArgs& args) { args.segments = list; });
  EXPECT_THAT(with_both.status,
              Optional(IsInvalidArgument("segments and an input besides")));
  const LocalJob::Call& with_output =
      job.Start(0, job.AllReduceRequest(1), [&](CollectiveArgs& args) {
        args.input = Tensor();
        args.segments = list;
      });
  EXPECT_THAT(with_output.status,
              Optional(IsInvalidArgument("segments and an output besides")));
}

}  // namespace segments_test
}  // namespace tutti
