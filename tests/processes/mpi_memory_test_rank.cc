// Tests of collectives that MPI runs in a process with little memory. Part of
// the program of mpi_collectives_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "absl/status/status.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_collectives_testing.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace {

// Limit of a single allocation in this process.
std::atomic<size_t> most_bytes = SIZE_MAX;

void* Allocate(size_t size, size_t alignment) {
  if (size > most_bytes) return nullptr;
  return std::aligned_alloc(alignment, (size | (alignment - 1)) + 1);
}

// Not inlined: GCC warns about free() next to a `new`.
[[gnu::noinline]] void Free(void* memory) { std::free(memory); }

}  // namespace

void* operator new(size_t size) {
  void* const memory = Allocate(size, alignof(std::max_align_t));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t size, std::align_val_t alignment,
                   const std::nothrow_t&) noexcept {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Free(memory); }

namespace tutti {
namespace {

// Less than the last of kCounts, with 4 bytes each.
constexpr size_t kFewBytes = 150'000;

// Leaves no memory for another tensor.
TEST_F(MpiCollectivesTest, MembersReduceInPlaceOrNotAsTheyLike) {
  for (const int64_t count : kCounts) {
    for (const int parity : {0, 1}) {
      SCOPED_TRACE(count);
      const TensorShape shape = TensorShape::Vector(count);
      Call call = CallOf("MpiReduce", AllReduce(), DType::kFloat32, shape);
      const bool in_place = rank() % 2 == parity;
      call.output =
          in_place ? call.input : *Tensor::Allocate(DType::kFloat32, shape);
      most_bytes = kFewBytes;
      RunAndCheck(call, [&](int64_t i) { return SumOf(i); });
      most_bytes = SIZE_MAX;
      if (in_place) continue;
      Check(call.input, [&](int64_t i) { return Value(rank(), i); });
    }
  }
}

// Needs memory to pack data for a custom op, and to copy input that MPI would
// overwrite.
TEST_F(MpiCollectivesTest, WithoutMemoryItEndsOnAllAndTheNextOneRuns) {
  constexpr int64_t kBlock = 40'001;
  const int64_t begin = kBlock * rank();
  const TensorShape whole = TensorShape::Vector(kBlock * size());
  const TensorShape part = TensorShape::Vector(kBlock);
  std::vector<CollectiveRequest> requests = {
      RequestOf("MpiReduce", AllReduce(), DType::kInt32, whole),
      RequestOf("MpiReduceScatter", ReduceScatter(), DType::kInt32, whole),
      RequestOf("MpiGather", AllGather(), DType::kInt32, part),
      RequestOf("MpiAllToAll", AllToAll(), DType::kInt32, whole)};
  requests[0].merge_op = *MergeOp::Custom(CustomSum("add"));
  for (const CollectiveRequest& request : requests) {
    for (int64_t step = 1; step <= 2; ++step) {
      Call call{.request = request};
      Tensor tensor = Filled(DType::kInt32, whole, rank());
      const bool is_gather = request.shape == part;
      const bool is_scatter = request.impl_details.implementation ==
                              requests[1].impl_details.implementation;
      call.input = is_gather ? *tensor.Slice(begin, begin + kBlock) : tensor;
      call.output = is_scatter ? *tensor.Slice(begin, begin + kBlock) : tensor;
      if (step == 1 && rank() == size() - 1) most_bytes = kFewBytes;
      Start(call, step);
      const absl::Status status = call.Wait();
      most_bytes = SIZE_MAX;
      if (step == 2) {
        EXPECT_THAT(status, IsOk());
      } else {
        EXPECT_THAT(status, IsResourceExhausted("no memory for"));
      }
    }
  }
}

}  // namespace
}  // namespace tutti
