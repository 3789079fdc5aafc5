#ifndef TUTTI_TESTS_PROCESSES_MPI_COLLECTIVES_TESTING_H_
#define TUTTI_TESTS_PROCESSES_MPI_COLLECTIVES_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_task.h"
#include "tools/request/element.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {

// Fixture in a process of an MPI job, whose ranks all run the same tests in
// step.
class MpiCollectivesTest : public testing::Test {
 protected:
  // Arguments and result of a call.
  struct Call {
    CollectiveRequest request;
    Tensor input;
    Tensor output;
    absl::Status status = absl::UnknownError("not ended");
    BlockingCounter ended{1};

    absl::Status Wait() {
      ended.Wait();
      return status;
    }
  };

  static constexpr int64_t kCounts[] = {0, 1, 7, 1001, 40'001};

  // Counts of 4-byte elements: kFew elements travel in the messages by which
  // members agree to begin, kMany are reduced by MPI.
  static constexpr int64_t kFew = 100;
  static constexpr int64_t kMany = 3000;

  void SetUp() override { Create(/*devices_per_task=*/1); }
  void TearDown() override { Leave(); }

  void Create(int devices_per_task) {
    auto runtime = JoinedMpiTask({.devices_per_task = devices_per_task});
    ASSERT_THAT(runtime, IsOk());
    runtime_ = *std::move(runtime);
  }

  void Leave() { EXPECT_THAT(LeaveMpiTask(std::move(runtime_)), IsOk()); }

  int rank() const { return runtime_->cluster().this_task; }
  int size() const { return runtime_->cluster().num_tasks(); }

  CollectiveRequest RequestOf(const std::string& implementation,
                              CollectiveOp op, DType dtype,
                              const TensorShape& shape) {
    CollectiveRequest request;
    request.group_size = size();
    request.rank = rank();
    request.instance_key = ++last_instance_;
    request.op = std::move(op);
    request.dtype = dtype;
    request.shape = shape;
    request.impl_details.implementation = implementation;
    return request;
  }

  // A call of this rank whose input is Filled().
  Call CallOf(const std::string& implementation, CollectiveOp op, DType dtype,
              const TensorShape& shape) {
    return {.request = RequestOf(implementation, std::move(op), dtype, shape),
            .input = Filled(dtype, shape, rank())};
  }

  void Start(Call& call, int64_t step = 1,
             std::shared_ptr<Cancellation> cancellation = nullptr,
             size_t device = 0,
             absl::Duration limit = absl::InfiniteDuration()) {
    runtime_->manager().FindOrCreate(step)->ExecuteAsync(
        {.device = runtime_->devices()[device],
         .request = std::make_shared<const CollectiveRequest>(call.request),
         .input = call.input,
         .output = &call.output,
         .deadline = MpiTestEnvironment().clock->Now() + limit,
         .cancellation = std::move(cancellation)},
        [&call](absl::Status status) {
          call.status = std::move(status);
          call.ended.DecrementCount();
        });
  }

  // Element i of rank r: a whole number. Every dtype can hold it, and its sums
  // and products over eight ranks.
  static int Value(int rank, int64_t i) {
    return static_cast<int>((rank * 5 + i * 3) % 4 + 1) % 3;
  }

  static void Set(Tensor& tensor, int64_t i, int value) {
    std::byte* const at = tensor.mutable_data() + i * SizeOf(tensor.dtype());
    if (IsFloating(tensor.dtype()) || IsComplex(tensor.dtype())) {
      StoreFloating(tensor.dtype(), value, at);
    } else {
      StoreInteger(tensor.dtype(), value, at);
    }
  }

  static Tensor Filled(DType dtype, const TensorShape& shape, int rank) {
    Tensor tensor = *Tensor::Allocate(dtype, shape);
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      Set(tensor, i,
          dtype == DType::kBool ? Value(rank, i) % 2 : Value(rank, i));
    }
    return tensor;
  }

  // A merge op that adds int32 elements.
  static CustomMergeOp CustomSum(std::string name) {
    return {.name = std::move(name),
            .commutative = true,
            .apply = [](DType, const void* left, const void* right, void* into,
                        int64_t num_elements) {
              for (int64_t i = 0; i < num_elements; ++i) {
                int32_t a = 0, b = 0;
                std::memcpy(&a, static_cast<const char*>(left) + 4 * i, 4);
                std::memcpy(&b, static_cast<const char*>(right) + 4 * i, 4);
                a += b;
                std::memcpy(static_cast<char*>(into) + 4 * i, &a, 4);
              }
              return absl::OkStatus();
            }};
  }

  // Runs the call and checks the output; `wanted` is a function of an element's
  // index.
  template <typename Wanted>
  void RunAndCheck(Call& call, Wanted wanted) {
    Start(call);
    const absl::Status status = call.Wait();
    ASSERT_THAT(status, IsOk());
    Check(call.output, wanted);
  }

  template <typename Wanted>
  static void Check(const Tensor& output, Wanted wanted) {
    const size_t bytes = SizeOf(output.dtype());
    Tensor one = *Tensor::Allocate(output.dtype(), TensorShape::Vector(1));
    for (int64_t i = 0; i < output.num_elements(); ++i) {
      Set(one, 0, wanted(i));
      ASSERT_EQ(std::memcmp(one.data(), output.data() + i * bytes, bytes), 0)
          << Name(output.dtype()) << ", element " << i << " of "
          << output.num_elements();
    }
  }

  int SumOf(int64_t i) const {
    int sum = 0;
    for (int r = 0; r < size(); ++r) sum += Value(r, i);
    return sum;
  }

  std::unique_ptr<ClusterRuntime> runtime_;
  int64_t last_instance_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_PROCESSES_MPI_COLLECTIVES_TESTING_H_
