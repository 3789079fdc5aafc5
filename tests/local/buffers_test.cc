// Bits and places of results, for each way to pass buffers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/reduce/reduction_reference_testing.h"
#include "framework/reduce/reduction_test_data.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

namespace tutti {
namespace buffers_test {

using absl::StatusCode;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

// LocalReduce, LocalReduceScatter and ShuffleReduce sum in rank order,
// whichever rank comes last, and round small floats once. Another schedule in
// rank order rounds in every step. An empty tensor may have the address of
// another member's tensor: the member with the empty tensor does not run in
// place.

constexpr int kNumDevices = 3;

// A vector that owns a copy of the bytes.
Tensor TensorOf(DType dtype, absl::Span<const uint8_t> bytes) {
  Tensor tensor = *Tensor::Allocate(
      dtype,
      TensorShape::Vector(static_cast<int64_t>(bytes.size() / SizeOf(dtype))));
  std::copy(bytes.begin(), bytes.end(),
            reinterpret_cast<uint8_t*>(tensor.mutable_data()));
  return tensor;
}

Bytes BytesOf(const Tensor& tensor) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(tensor.data());
  return Bytes(bytes, bytes + tensor.size_bytes());
}

std::vector<float> FloatsOf(const Tensor& tensor) {
  std::vector<float> floats(static_cast<size_t>(tensor.num_elements()));
  std::memcpy(floats.data(), tensor.data(), tensor.size_bytes());
  return floats;
}

std::vector<Bytes> InputsOf(DType dtype, int num_devices,
                            int64_t num_elements = 5001) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < num_devices; ++rank) {
    inputs.push_back(RandomElements(dtype, static_cast<size_t>(num_elements),
                                    static_cast<uint64_t>(rank)));
  }
  return inputs;
}

Bytes ReducedInOnePass(DType dtype, const std::vector<Bytes>& inputs,
                       int64_t divisor) {
  std::vector<const uint8_t*> pointers;
  for (const Bytes& input : inputs) pointers.push_back(input.data());
  Bytes reduced(inputs[0].size());
  ReferenceReduceMany(ReductionKind::kSum, dtype, pointers, reduced.data(),
                      reduced.size() / SizeOf(dtype), divisor);
  return reduced;
}

// Makes tests' names of a dtype, a number and what `more` says.
std::string NameOf(DType dtype, int64_t number, const std::string& more = "") {
  return absl::StrCat(Name(dtype), "_", number, more);
}

struct Execution {
  CollectiveOp op = AllReduce();
  std::string implementation;
  FinalOp final_op;
  std::vector<int> order;      // Of arrival; empty: rank order.
  bool half_in_place = false;  // Every second member runs in place.
};

// Outputs of all members of an execution with these inputs.
std::vector<Bytes> OutputsOf(DType dtype, const std::vector<Bytes>& inputs,
                             Execution execution) {
  const auto num_devices = static_cast<int>(inputs.size());
  LocalJob job({.devices_per_task = num_devices});
  CollectiveRequest request = job.AllReduceRequest(
      static_cast<int64_t>(inputs[0].size() / SizeOf(dtype)),
      execution.implementation);
  request.dtype = dtype;
  request.op = execution.op;
  request.final_op = execution.final_op;
  const auto shared =
      std::make_shared<const CollectiveRequest>(std::move(request));
  if (execution.order.empty()) {
    execution.order.resize(inputs.size());
    std::iota(execution.order.begin(), execution.order.end(), 0);
  }
  std::vector<Tensor> outputs(inputs.size());
  int num_ok = 0;
  for (const int rank : execution.order) {
    const auto index = static_cast<size_t>(rank);
    const Tensor input = TensorOf(dtype, inputs[index]);
    if (execution.half_in_place && rank % 2 == 1) outputs[index] = input;
    job.executor().ExecuteAsync(
        {.device = job.devices()[index],
         .request = shared,
         .input = input,
         .output = &outputs[index]},
        [&](const absl::Status& status) { num_ok += status.ok(); });
  }
  job.environment().RunAll();
  EXPECT_EQ(num_ok, num_devices);
  std::vector<Bytes> results;
  for (const Tensor& output : outputs) results.push_back(BytesOf(output));
  return results;
}

// Dtype, elements of an input, order of arrival.
using ReductionParam = std::tuple<DType, int64_t, std::vector<int>>;

class LocalReductionTest : public testing::TestWithParam<ReductionParam> {
 protected:
  std::vector<Bytes> Run(CollectiveOp op, const std::string& implementation) {
    return OutputsOf(dtype_, inputs_,
                     {.op = std::move(op),
                      .implementation = implementation,
                      .final_op = FinalOp::DivideByGroupSize(),
                      .order = std::get<2>(GetParam())});
  }

  const DType dtype_ = std::get<0>(GetParam());
  const std::vector<Bytes> inputs_ =
      InputsOf(dtype_, kNumDevices, std::get<1>(GetParam()));
  const Bytes expected_ = ReducedInOnePass(dtype_, inputs_, kNumDevices);
};

TEST_P(LocalReductionTest, AllReduceAddsInRankOrderAndRoundsOnce) {
  for (const Bytes& output : Run(AllReduce(), "LocalReduce")) {
    EXPECT_TRUE(output == expected_);
  }
}

TEST_P(LocalReductionTest, ReduceScatterAddsInRankOrderAndRoundsOnce) {
  Bytes joined;
  for (const Bytes& output : Run(ReduceScatter(), "LocalReduceScatter")) {
    joined.insert(joined.end(), output.begin(), output.end());
  }
  EXPECT_TRUE(joined == expected_);
}

// The larger size is cut into slices, and written past the caches.
INSTANTIATE_TEST_SUITE_P(
    All, LocalReductionTest,
    testing::Combine(testing::Values(DType::kFloat16, DType::kBFloat16,
                                     DType::kFloat32, DType::kFloat64),
                     testing::Values<int64_t>(9, 3 * 800'001),
                     testing::Values(std::vector<int>{0, 1, 2},
                                     std::vector<int>{2, 0, 1})),
    [](const auto& info) {
      return NameOf(std::get<0>(info.param), std::get<1>(info.param),
                    std::get<2>(info.param)[0] == 0 ? "" : "_shuffled");
    });

// Bits of the sum of these float16 elements, one of each device.
uint16_t SumOf(const std::vector<uint16_t>& codes,
               const std::string& implementation) {
  std::vector<Bytes> inputs;
  for (const uint16_t code : codes) {
    Bytes& input = inputs.emplace_back();
    for (int owner = 0; owner < kNumDevices; ++owner) {  // Of a chunk.
      const Bytes element = Element(DType::kFloat16, code);
      input.insert(input.end(), element.begin(), element.end());
    }
  }
  std::set<uint16_t> sums;
  for (const Bytes& output :
       OutputsOf(DType::kFloat16, inputs, {.implementation = implementation})) {
    const auto* begin = reinterpret_cast<const uint16_t*>(output.data());
    sums.insert(begin, begin + kNumDevices);
  }
  EXPECT_EQ(sums.size(), 1);
  return *sums.begin();
}

TEST(RoundingTest, OnePassRoundsOnceAndAScheduleOncePerStep) {
  constexpr uint16_t kOne = 0x3C00, k2048 = 0x6800, k2050 = 0x6801;
  EXPECT_EQ(SumOf({k2048, kOne, kOne}, "LocalReduce"), k2050);
  // Rounds once.
  EXPECT_EQ(SumOf({k2048, kOne, kOne}, "ShuffleReduce"), k2050);
  EXPECT_EQ(SumOf({k2048, kOne, kOne}, "TreeReduce"), k2048);
  EXPECT_EQ(SumOf({kOne, kOne, k2048}, "TreeReduce"), k2050);  // Rank order.
}

// More members than the kernels read at once.
using ManyParam = std::tuple<DType, int>;
class ManyMembersTest : public testing::TestWithParam<ManyParam> {};

TEST_P(ManyMembersTest, AllReduceAddsInRankOrderAndRoundsOnce) {
  const auto [dtype, num_devices] = GetParam();
  const std::vector<Bytes> inputs = InputsOf(dtype, num_devices);
  const Bytes expected = ReducedInOnePass(dtype, inputs, /*divisor=*/1);
  for (const Bytes& output :
       OutputsOf(dtype, inputs,
                 {.implementation = "LocalReduce", .half_in_place = true})) {
    EXPECT_TRUE(output == expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ManyMembersTest,
    testing::Combine(testing::Values(DType::kFloat16, DType::kBFloat16,
                                     DType::kFloat32, DType::kFloat64,
                                     DType::kInt8, DType::kUint8, DType::kInt32,
                                     DType::kInt64),
                     testing::Values(9, 16, 17, 33)),
    [](const auto& info) {
      return NameOf(std::get<0>(info.param), std::get<1>(info.param));
    });

TEST(RoundingTest, AveragesOfOnePassAndOfOneStepAreRoundedOnce) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const int num_devices : {2, 3, 5, 7}) {
      const std::vector<Bytes> inputs = InputsOf(dtype, num_devices);
      const Bytes expected = ReducedInOnePass(dtype, inputs, num_devices);
      for (const char* const name : {"LocalReduce", "ShuffleReduce"}) {
        for (const Bytes& output :
             OutputsOf(dtype, inputs,
                       {.implementation = name,
                        .final_op = FinalOp::DivideByGroupSize(),
                        .half_in_place = true})) {
          EXPECT_TRUE(output == expected)
              << name << " of " << Name(dtype) << " among " << num_devices;
        }
      }
    }
  }
}

constexpr int64_t kRows = 4;

// Member 0 or 1 sends all its rows to the other member, which sends nothing.
class OneWayTest : public testing::TestWithParam<int> {
 protected:
  void Call(int device, std::vector<int64_t> send_rows, Tensor input,
            Tensor* output) {
    CollectiveRequest request =
        job_.AllReduceRequest(input.num_elements(), "LocalAllToAll");
    request.op = AllToAll{.send_rows = std::move(send_rows)};
    job_.executor().ExecuteAsync(
        {.device = job_.devices()[static_cast<size_t>(device)],
         .request = std::make_shared<const CollectiveRequest>(request),
         .input = std::move(input),
         .output = output},
        [this](const absl::Status& status) {
          EXPECT_THAT(status, IsOk());
          ++num_done_;
        });
  }

  LocalJob job_{{.devices_per_task = 2}};
  int num_done_ = 0;
};

TEST_P(OneWayTest, EmptyInputAtTheAddressOfTheOutputIsNotInPlace) {
  const int sender = GetParam();
  const int receiver = 1 - sender;
  const TensorShape shape = TensorShape::Vector(kRows);
  float values[] = {1, 2, 3, 4};
  Tensor sent = *Tensor::Wrap(DType::kFloat32, shape, values);
  Tensor received = *Tensor::Allocate(DType::kFloat32, shape);
  Tensor nothing = *sent.Slice(0, 0);
  std::vector<int64_t> send_rows(2, 0);
  send_rows[static_cast<size_t>(receiver)] = kRows;
  Call(sender, send_rows, sent, &nothing);
  Call(receiver, {0, 0}, *received.Slice(0, 0), &received);
  job_.environment().RunAll();
  EXPECT_EQ(num_done_, 2);
  const auto* const results = reinterpret_cast<const float*>(received.data());
  EXPECT_EQ(std::vector<float>(results, results + kRows),
            (std::vector<float>{1, 2, 3, 4}));
}

INSTANTIATE_TEST_SUITE_P(Sender, OneWayTest, testing::Values(0, 1));

// Exchanges blocks of `block_bytes` among `size` members, of which every
// `in_place_step`-th is in place (0: none). Byte i of the block from rank a to
// rank b is (a * 31 + b * 7 + i) % 251.
class BlockSizesTest
    : public testing::TestWithParam<std::tuple<int, int64_t, int>> {
 protected:
  Bytes Column(int rank, bool sent) const {
    const auto [size, block_bytes, in_place_step] = GetParam();
    Bytes bytes;
    for (int peer = 0; peer < size; ++peer) {
      const int from = sent ? rank : peer, to = sent ? peer : rank;
      for (int64_t i = 0; i < block_bytes; ++i) {
        bytes.push_back(static_cast<uint8_t>((from * 31 + to * 7 + i) % 251));
      }
    }
    return bytes;
  }
};

TEST_P(BlockSizesTest, EveryBlockGoesFromItsSenderToItsReceiver) {
  const auto [size, block_bytes, in_place_step] = GetParam();
  LocalJob job({.devices_per_task = size});
  CollectiveRequest request =
      job.AllReduceRequest(size * block_bytes, "LocalAllToAll");
  request.op = AllToAll{};
  request.dtype = DType::kUint8;
  const auto shared = std::make_shared<const CollectiveRequest>(request);
  std::vector<Tensor> inputs, outputs;
  for (int rank = 0; rank < size; ++rank) {
    inputs.push_back(TensorOf(DType::kUint8, Column(rank, /*sent=*/true)));
    outputs.push_back(in_place_step > 0 && rank % in_place_step == 0
                          ? inputs.back()
                          : *Tensor::Allocate(DType::kUint8, request.shape));
  }
  int num_done = 0;
  for (int rank = 0; rank < size; ++rank) {
    const auto index = static_cast<size_t>(rank);
    job.executor().ExecuteAsync({.device = job.devices()[index],
                                 .request = shared,
                                 .input = inputs[index],
                                 .output = &outputs[index]},
                                [&](const absl::Status& status) {
                                  EXPECT_THAT(status, IsOk());
                                  ++num_done;
                                });
  }
  job.environment().RunAll();
  EXPECT_EQ(num_done, size);
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_TRUE(BytesOf(outputs[static_cast<size_t>(rank)]) ==
                Column(rank, /*sent=*/false))
        << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, BlockSizesTest,
                         testing::Combine(testing::Values(1, 2, 7, 33),
                                          testing::Values(1, 3, 16, 63, 64, 65,
                                                          1023, 2111),
                                          testing::Values(0, 1, 2)));

// Slices cut through blocks.
INSTANTIATE_TEST_SUITE_P(ManySlices, BlockSizesTest,
                         testing::Combine(testing::Values(33),
                                          testing::Values(2111, 4001),
                                          testing::Values(0, 1, 2)));

// Tensors reduced together give the same bits, ends and errors as one tensor
// that holds all of them.

Tensor Floats(const std::vector<float>& values) {
  return TensorOf(DType::kFloat32,
                  {reinterpret_cast<const uint8_t*>(values.data()),
                   values.size() * sizeof(float)});
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
    const Tensor input = TensorOf(
        dtype,
        absl::MakeSpan(all).subspan(begin * element, (end - begin) * element));
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
    const Bytes bytes = BytesOf(output);
    all.insert(all.end(), bytes.begin(), bytes.end());
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
using SegmentsParam = std::tuple<std::string, DType, int64_t>;

class SegmentsSumTest : public testing::TestWithParam<SegmentsParam> {
 protected:
  SegmentsSumTest() {
    const auto& [algorithm, dtype, num_elements] = GetParam();
    request_ = job_.AllReduceRequest(num_elements, algorithm);
    request_.dtype = dtype;
    if (IsFloating(dtype)) request_.final_op = FinalOp::DivideByGroupSize();
    inputs_ = InputsOf(dtype, kNumDevices, num_elements);
  }

  // Calls for all devices, whose inputs are those of the test unless `change`
  // sets segments, and runs all work.
  std::vector<LocalJob::Call*> Run(
      const CollectiveRequest& request,
      const std::function<void(int device, CollectiveArgs& args)>& change) {
    const auto calls = job_.RunAll(request, [&](CollectiveArgs& args) {
      const int device = args.device->attributes().name.index;
      args.input = *Tensor::Wrap(request.dtype, request.shape,
                                 inputs_[static_cast<size_t>(device)].data());
      if (change) change(device, args);
    });
    ExpectEnds(calls, IsOk());
    return calls;
  }

  // Result of one tensor per member.
  Bytes Expected() {
    CollectiveRequest request = request_;
    request.instance_key = 2;
    return BytesOf(Run(request, nullptr)[0]->output);
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
  Run(request_, [&](int device, CollectiveArgs& args) {
    lists.push_back(SegmentsOf(device, 3 + 4 * device));
    SetSegments(args, lists.back());
  });
  for (size_t device = 0; device < kNumDevices; ++device) {
    EXPECT_TRUE(OutputsOf(*lists[device]) == expected) << device;
  }
}

TEST_P(SegmentsSumTest, AMemberWithOneTensorMeetsOthersWithSegments) {
  const Bytes expected = Expected();
  const auto list = SegmentsOf(0, 5);
  const auto calls = Run(request_, [&](int device, CollectiveArgs& args) {
    if (device == 0) SetSegments(args, list);
  });
  EXPECT_TRUE(OutputsOf(*list) == expected);
  EXPECT_TRUE(BytesOf(calls[1]->output) == expected);
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
      return absl::StrCat(
          std::get<0>(info.param), "_",
          NameOf(std::get<1>(info.param), std::get<2>(info.param)));
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
  const auto calls = job_.PrepareAll(Request(), [&](CollectiveArgs& args) {
    lists.push_back(TwoSegments(args.device->attributes().name.index));
    SetSegments(args, lists.back());
  });
  for (int num_done = 1; num_done < 4; ++num_done) {
    for (LocalJob::Call* const call : calls) {
      ASSERT_NE(call->prepared, nullptr);
      call->prepared->Start(call->Done());
    }
    job_.environment().RunAll();
    for (const LocalJob::Call* call : calls) {
      EXPECT_THAT(call->status, Optional(IsOk()));
      EXPECT_EQ(call->num_done, 1 + num_done);
    }
    for (const auto& list : lists) {
      ExpectSums(*list);
      for (const auto& [input, output] : list->segments()) {
        Tensor written = output;
        std::memset(written.mutable_data(), 0, written.size_bytes());
      }
    }
    EXPECT_FALSE(calls[0]->prepared->output().is_set());
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

// Members that allow it get one output, written once. If a member does not
// allow it, each member gets a separate output.

// Dtype and elements of an input.
using SharedParam = std::tuple<DType, int64_t>;

class SharedSumTest : public testing::TestWithParam<SharedParam> {};

TEST_P(SharedSumTest, AllGetOneBufferWithTheBitsOfSeparateOnes) {
  const auto [dtype, num_elements] = GetParam();
  LocalJob job({.devices_per_task = kNumDevices});
  CollectiveRequest request = job.AllReduceRequest(num_elements);
  request.dtype = dtype;
  std::vector<Bytes> inputs = InputsOf(dtype, kNumDevices, num_elements);
  const auto calls = job.RunAll(request, [&](CollectiveArgs& args) {
    Bytes& input = inputs[args.device->attributes().name.index];
    args.input = *Tensor::Wrap(dtype, request.shape, input.data());
    args.allow_shared_output = true;
  });
  const Bytes expected = ReducedInOnePass(dtype, inputs, /*divisor=*/1);
  const std::byte* const place = calls[0]->output.data();
  for (LocalJob::Call* call : calls) {
    ASSERT_THAT(call->status, Optional(IsOk()));
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
      return NameOf(std::get<0>(info.param), std::get<1>(info.param));
    });

class SharedOutputTest : public testing::Test {
 protected:
  static void Allow(CollectiveArgs& args) { args.allow_shared_output = true; }

  static void ExpectResults(const std::vector<LocalJob::Call*>& calls,
                            const std::vector<float>& result) {
    for (const LocalJob::Call* call : calls) {
      ASSERT_THAT(call->status, Optional(IsOk()));
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
  std::byte unread[1];
  LocalJob::Call calls[kNumDevices];
  for (int device = 0; device < kNumDevices; ++device) {
    LocalJob::Call& call = calls[device];
    job_.executor().ExecuteAsync(
        {.device = job_.devices()[device],
         .request = std::make_shared<const CollectiveRequest>(request),
         .input = *Tensor::Wrap(DType::kFloat32, request.shape, unread),
         .output = &call.output,
         .allow_shared_output = true},
        call.Done());
  }
  ExpectEnds({&calls[0], &calls[1], &calls[2]},
             IsResourceExhausted("no memory"));
}

TEST_F(SharedOutputTest, WhatFailsBeforeAllAreHereSetsNoOutput) {
  const CollectiveRequest request = job_.AllReduceRequest(2);
  job_.RunAll(request);  // Settles the instance.
  const auto& early = job_.Start(0, request, Allow);
  job_.executor().StartAbort(absl::DataLossError("lost"));
  const auto& late = job_.Start(1, request, Allow);
  job_.environment().RunAll();
  ExpectEnds({&early, &late}, IsDataLoss("lost"));
  EXPECT_FALSE(early.output.is_set());
  EXPECT_FALSE(late.output.is_set());
}

class PreparedSharedOutputTest : public SharedOutputTest {
 protected:
  void Start(const std::vector<int>& devices = {0, 1, 2}) {
    for (const int device : devices) {
      calls_[device]->prepared->Start(calls_[device]->Done());
    }
  }

  // Expects that each member has prepared, and has then started so often.
  void ExpectStarted(int num_starts) {
    for (const LocalJob::Call* call : calls_) {
      EXPECT_THAT(call->status, Optional(IsOk()));
      EXPECT_EQ(call->num_done, 1 + num_starts);
    }
  }

  const Tensor& output(int device) const {
    return calls_[device]->prepared->output();
  }

  // Addresses of the prepared collectives' outputs.
  std::array<const std::byte*, kNumDevices> Places() const {
    return {output(0).data(), output(1).data(), output(2).data()};
  }

  const CollectiveRequest request_ = job_.AllReduceRequest(1);
  const std::vector<LocalJob::Call*> calls_ = job_.PrepareAll(request_, Allow);
};

TEST_F(PreparedSharedOutputTest, StartsWriteTheSameBufferAgain) {
  ExpectStarted(0);
  for (const int device : {0, 1, 2}) EXPECT_FALSE(output(device).is_set());
  Start();
  const auto places = Places();
  EXPECT_THAT(places, Each(places[0]));
  for (float more = 0; more < 3; ++more) {
    calls_[1]->input[0] = 10 + more;
    Start();
    EXPECT_EQ(Places(), places);
    EXPECT_THAT(FloatsOf(output(2)), ElementsAre(14 + more));
  }
  ExpectStarted(4);
}

TEST_F(PreparedSharedOutputTest, WhoCallsWithoutAllowingItKeepsWhatWasShared) {
  Start();
  ExpectStarted(1);
  const Tensor kept = output(1);
  calls_[0]->input[0] = 11;
  Start({0});
  const LocalJob::Call& call = job_.Start(1, request_);
  Start({2});
  ExpectEnds({&call}, IsOk());
  EXPECT_THAT(FloatsOf(kept), ElementsAre(6));
  for (const Tensor& own : {output(0), call.output, output(2)}) {
    EXPECT_THAT(FloatsOf(own), ElementsAre(16));
    EXPECT_NE(own.data(), kept.data());
  }
}

TEST_F(PreparedSharedOutputTest, StartsWithLimitsShareToo) {
  for (int i = 0; i < 2; ++i) {
    Start({0});
    calls_[1]->prepared->Start(
        {.cancellation = std::make_shared<Cancellation>()}, calls_[1]->Done());
    Start({2});
    EXPECT_THAT(Places(), Each(Places()[0]));
    EXPECT_THAT(FloatsOf(output(1)), ElementsAre(6));
  }
  ExpectStarted(2);
}

}  // namespace buffers_test
}  // namespace tutti
