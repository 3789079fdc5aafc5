// Tests named tensors of GPUs among the processes of an MPI job. mpirun_test.py
// starts the processes.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/testing/gpu_mpi_process.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/request/element.h"
#include "tutti/named_tensors.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Named tensors of each process's first device.
class GpuMpiNamedTest : public GpuMpiTest {
 protected:
  // Makes a tensor with `num_elements` times `value`.
  Tensor Filled(DType dtype, int64_t num_elements, int value) {
    const Tensor tensor =
        device(0).Allocate(dtype, TensorShape::Vector(num_elements)).value();
    Write(0, tensor, Elements(dtype, num_elements, value));
    return tensor;
  }

  static Bytes Elements(DType dtype, int64_t num_elements, int value) {
    Bytes bytes(static_cast<size_t>(num_elements) * SizeOf(dtype));
    for (size_t at = 0; at < bytes.size(); at += SizeOf(dtype)) {
      StoreFloating(dtype, value,
                    reinterpret_cast<std::byte*>(bytes.data()) + at);
    }
    return bytes;
  }

  std::vector<int> ShuffledOrder(int num_tensors) const {
    std::vector<int> order(static_cast<size_t>(num_tensors));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(),
                 std::mt19937(static_cast<unsigned>(task())));
    return order;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, GpuMpiNamedTest, testing::Values(1, 2),
                         testing::PrintToStringParamName());

TEST_P(GpuMpiNamedTest, TensorsComeInAnyOrder) {
  constexpr int kNumTensors = 40;
  const auto dtype_of = [](int which) {
    return which % 4 < 2 ? DType::kFloat32 : DType::kFloat16;
  };
  // The last tensors are larger than a chunk.
  const auto length_of = [](int which) {
    return which < kNumTensors - 2 ? which * 37 : 300'001;
  };
  GpuMpiCalls calls(kNumTensors);
  for (const int which : ShuffledOrder(kNumTensors)) {
    GpuMpiCall& call = calls[which];
    const bool gathers = which % 2 == 1;
    // Gathered tensors differ in length.
    const int64_t length = length_of(which) + (gathers ? task() : 0);
    call.buffers.input = Filled(dtype_of(which), length, task() + which % 5);
    NamedTensor tensor = {.name = absl::StrCat("tensor ", which),
                          .input = call.buffers.input,
                          .output = &call.buffers.output};
    gathers ? runtime().coordinator().AllGather(tensor, call.Set())
            : runtime().coordinator().AllReduce(tensor, call.Set());
  }
  for (int which = 0; which < kNumTensors; ++which) {
    SCOPED_TRACE(which);
    GpuMpiCall& call = calls[which];
    EXPECT_THAT(call.Wait(), IsOk());
    int sum = 0;
    Bytes gathered;
    for (int rank = 0; rank < num_tasks(); ++rank) {
      const int value = rank + which % 5;
      sum += value;
      const Bytes block =
          Elements(dtype_of(which), length_of(which) + rank, value);
      gathered.insert(gathered.end(), block.begin(), block.end());
    }
    const Bytes wanted = which % 2 == 1
                             ? gathered
                             : Elements(dtype_of(which), length_of(which), sum);
    EXPECT_TRUE(Read(call.buffers.output) == wanted);
  }
}

TEST_P(GpuMpiNamedTest, ADTypeThatDiffersIsNoErrorOfTheOthers) {
  if (num_tasks() == 1) return;
  constexpr int kNumTensors = 6, kBad = 3;
  GpuMpiCalls calls(kNumTensors);
  for (const int which : ShuffledOrder(kNumTensors)) {
    const DType dtype =
        which == kBad && is_last() ? DType::kFloat16 : DType::kFloat32;
    calls[which].buffers.input = Filled(dtype, 20'000, which);
    runtime().coordinator().AllReduce({.name = absl::StrCat("tensor ", which),
                                       .input = calls[which].buffers.input,
                                       .output = &calls[which].buffers.output},
                                      calls[which].Set());
  }
  for (int which = 0; which < kNumTensors; ++which) {
    const absl::Status status = calls[which].Wait();
    if (which == kBad) {
      EXPECT_THAT(status, IsFailedPrecondition("float16", "float32"));
      continue;
    }
    EXPECT_THAT(status, IsOk());
    EXPECT_TRUE(Read(calls[which].buffers.output) ==
                Elements(DType::kFloat32, 20'000, which * num_tasks()));
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::RunGpuMpiTests(argc, argv); }
