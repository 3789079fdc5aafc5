// LocalReduce, LocalReduceScatter and ShuffleReduce sum in rank order,
// whichever rank comes last, and round 16-bit floats once. Another schedule in
// rank order rounds in every step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/reduce/reduction_reference.h"
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

// Dtype, elements of an input, order of arrival.
using Param = std::tuple<DType, int64_t, std::vector<int>>;

class LocalReductionTest : public testing::TestWithParam<Param> {
 protected:
  LocalReductionTest() {
    for (int device = 0; device < kNumDevices; ++device) {
      inputs_.push_back(RandomElements(dtype_,
                                       static_cast<size_t>(num_elements_),
                                       static_cast<uint64_t>(device)));
    }
  }

  // Runs one execution; returns the outputs.
  std::vector<Bytes> Run(decltype(CollectiveRequest::op) op,
                         const std::string& implementation) {
    CollectiveRequest request =
        job_.AllReduceRequest(num_elements_, implementation);
    request.dtype = dtype_;
    request.op = std::move(op);
    request.final_op = FinalOp::DivideByGroupSize();
    const auto shared =
        std::make_shared<const CollectiveRequest>(std::move(request));
    std::vector<Tensor> outputs(kNumDevices);
    int num_ok = 0;
    for (const int device : std::get<2>(GetParam())) {
      const auto index = static_cast<size_t>(device);
      job_.executor().ExecuteAsync(
          {.device = job_.devices()[index],
           .request = shared,
           .input = TensorOf(dtype_, inputs_[index]),
           .output = &outputs[index]},
          [&](const absl::Status& status) { num_ok += status.ok(); });
    }
    job_.environment().RunAll();
    EXPECT_EQ(num_ok, kNumDevices);
    std::vector<Bytes> results;
    for (const Tensor& output : outputs) results.push_back(BytesOf(output));
    return results;
  }

  Bytes Expected() const {
    Bytes expected(inputs_[0].size());
    const std::vector<const uint8_t*> pointers = {
        inputs_[0].data(), inputs_[1].data(), inputs_[2].data()};
    ReferenceReduceMany(ReductionKind::kSum, dtype_, pointers, expected.data(),
                        static_cast<size_t>(num_elements_), kNumDevices);
    return expected;
  }

  const DType dtype_ = std::get<0>(GetParam());
  const int64_t num_elements_ = std::get<1>(GetParam());
  LocalJob job_{{.devices_per_task = kNumDevices}};
  std::vector<Bytes> inputs_;
};

TEST_P(LocalReductionTest, AllReduceAddsInRankOrderAndRoundsOnce) {
  const Bytes expected = Expected();
  for (const Bytes& output : Run(AllReduce(), "LocalReduce")) {
    EXPECT_TRUE(output == expected);
  }
}

TEST_P(LocalReductionTest, ReduceScatterAddsInRankOrderAndRoundsOnce) {
  const Bytes expected = Expected();
  Bytes joined;
  for (const Bytes& output : Run(ReduceScatter(), "LocalReduceScatter")) {
    joined.insert(joined.end(), output.begin(), output.end());
  }
  EXPECT_TRUE(joined == expected);
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
  LocalJob job({.devices_per_task = kNumDevices});
  // An element for each owner of a chunk.
  CollectiveRequest request = job.AllReduceRequest(kNumDevices, implementation);
  request.dtype = DType::kFloat16;
  const auto shared =
      std::make_shared<const CollectiveRequest>(std::move(request));
  std::vector<Tensor> outputs(kNumDevices);
  for (size_t i = 0; i < kNumDevices; ++i) {
    Bytes input;
    for (int owner = 0; owner < kNumDevices; ++owner) {
      const Bytes element = Element(DType::kFloat16, codes[i]);
      input.insert(input.end(), element.begin(), element.end());
    }
    job.executor().ExecuteAsync(
        {.device = job.devices()[i],
         .request = shared,
         .input = TensorOf(DType::kFloat16, input),
         .output = &outputs[i]},
        [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
  }
  job.environment().RunAll();
  std::set<uint16_t> sums;
  for (const Tensor& output : outputs) {
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

constexpr int64_t kNumElements = 5001;

std::vector<Bytes> InputsOf(DType dtype, int num_devices) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < num_devices; ++rank) {
    inputs.push_back(
        RandomElements(dtype, kNumElements, static_cast<uint64_t>(rank)));
  }
  return inputs;
}

Bytes ReducedInOnePass(DType dtype, const std::vector<Bytes>& inputs,
                       int64_t divisor) {
  std::vector<const uint8_t*> pointers;
  for (const Bytes& input : inputs) pointers.push_back(input.data());
  Bytes reduced(inputs[0].size());
  ReferenceReduceMany(ReductionKind::kSum, dtype, pointers, reduced.data(),
                      kNumElements, divisor);
  return reduced;
}

// Outputs of all members; every second member runs in place.
std::vector<Bytes> AllReduced(DType dtype, const std::vector<Bytes>& inputs,
                              const std::string& implementation,
                              const FinalOp& final_op) {
  const auto num_devices = static_cast<int>(inputs.size());
  LocalJob job({.devices_per_task = num_devices});
  CollectiveRequest request =
      job.AllReduceRequest(kNumElements, implementation);
  request.dtype = dtype;
  request.final_op = final_op;
  const auto shared = std::make_shared<const CollectiveRequest>(request);
  std::vector<Tensor> outputs(inputs.size());
  int num_ok = 0;
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    const Tensor input = TensorOf(dtype, inputs[rank]);
    if (rank % 2 == 1) outputs[rank] = input;
    job.executor().ExecuteAsync(
        {.device = job.devices()[rank],
         .request = shared,
         .input = input,
         .output = &outputs[rank]},
        [&](const absl::Status& status) { num_ok += status.ok(); });
  }
  job.environment().RunAll();
  EXPECT_EQ(num_ok, num_devices);
  std::vector<Bytes> results;
  for (const Tensor& output : outputs) results.push_back(BytesOf(output));
  return results;
}

// More members than the kernels read at once.
using ManyParam = std::tuple<DType, int>;
class ManyMembersTest : public testing::TestWithParam<ManyParam> {};

TEST_P(ManyMembersTest, AllReduceAddsInRankOrderAndRoundsOnce) {
  const auto [dtype, num_devices] = GetParam();
  const std::vector<Bytes> inputs = InputsOf(dtype, num_devices);
  const Bytes expected = ReducedInOnePass(dtype, inputs, /*divisor=*/1);
  for (const Bytes& output :
       AllReduced(dtype, inputs, "LocalReduce", FinalOp())) {
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
             AllReduced(dtype, inputs, name, FinalOp::DivideByGroupSize())) {
          EXPECT_TRUE(output == expected)
              << name << " of " << Name(dtype) << " among " << num_devices;
        }
      }
    }
  }
}

}  // namespace local_reduction_test
}  // namespace tutti
