// LocalReduce, LocalReduceScatter and ShuffleReduce sum in rank order,
// whichever rank comes last, and round 16-bit floats once. Another schedule in
// rank order rounds in every step. An empty tensor may have the address of
// another member's tensor: the member with the empty tensor does not run in
// place.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/reduce/reduction_reference_testing.h"
#include "framework/reduce/reduction_test_data.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace local_reduction_test {

constexpr int kNumDevices = 3;

Tensor TensorOf(DType dtype, const Bytes& bytes) {
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

// Dtype, elements of an input, order of arrival.
using Param = std::tuple<DType, int64_t, std::vector<int>>;

class LocalReductionTest : public testing::TestWithParam<Param> {
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
      return std::string(Name(std::get<0>(info.param))) + "_" +
             std::to_string(std::get<1>(info.param)) +
             (std::get<2>(info.param)[0] == 0 ? "" : "_shuffled");
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
      return std::string(Name(std::get<0>(info.param))) + "_" +
             std::to_string(std::get<1>(info.param));
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

}  // namespace local_reduction_test
}  // namespace tutti
