// The tests of collectives that MPI runs that each process of a job runs, in
// step with the others: mpirun_test.py starts them. With the argument
// "funneled" MPI is for calls from one thread, with "adopted" the program's
// own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/await.h"
#include "framework/blocking_counter.h"
#include "framework/cancellation.h"
#include "framework/collective_executor_mgr.h"
#include "framework/collective_request.h"
#include "framework/status_callback.h"
#include "framework/step_sequence.h"
#include "framework/tensor.h"
#include "runtime/cluster_runtime.h"
#include "tests/mpi_collectives_testing.h"
#include "tests/mpi_task.h"
#include "tests/mpi_thread.h"
#include "tests/status_matchers.h"

namespace {

// More at once is not to be had in this process.
std::atomic<size_t> most_bytes = SIZE_MAX;

void* Allocate(size_t size, size_t alignment) {
  if (size > most_bytes) return nullptr;
  return std::aligned_alloc(alignment, (size | (alignment - 1)) + 1);
}

// GCC takes free() for a mistake where it sees it beside a `new`.
[[gnu::noinline]] void Free(void* memory) { std::free(memory); }

// Of groups, in this process; MPI's thread makes and frees them.
std::set<MPI_Comm> communicators;
std::atomic<int> num_communicators = 0;

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

int MPI_Comm_create_group(MPI_Comm all, MPI_Group group, int tag,
                          MPI_Comm* made) {
  tutti::CheckMpiThread("MPI_Comm_create_group");
  const int code = PMPI_Comm_create_group(all, group, tag, made);
  communicators.insert(*made);
  num_communicators = static_cast<int>(communicators.size());
  return code;
}

int MPI_Comm_free(MPI_Comm* communicator) {
  tutti::CheckMpiThread("MPI_Comm_free");
  communicators.erase(*communicator);
  num_communicators = static_cast<int>(communicators.size());
  return PMPI_Comm_free(communicator);
}

namespace tutti {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr int64_t kCounts[] = {0, 1, 7, 1001, 40'001};

// Less than the last of these, of 4 bytes each.
constexpr size_t kFewBytes = 150'000;

// Of 4 bytes each: what goes with the notes by which members agree to begin,
// and what MPI reduces.
constexpr int64_t kFew = 100;
constexpr int64_t kMany = 3000;

TEST_F(MpiCollectivesTest, AllReduceGivesAllTheReductionOfEveryDType) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    for (const int64_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(absl::StrCat(Name(dtype), " ", count));
        const TensorShape shape = TensorShape::Vector(count);
        Call call{.request = RequestOf("MpiReduce", AllReduce(), dtype, shape),
                  .input = Filled(dtype, shape, rank())};
        if (in_place) call.output = call.input;
        RunAndCheck(call, [&](int64_t i) { return SumOf(i); });
      }
    }
  }
}

// MPI adds up in an order of its own, but once for all.
TEST_F(MpiCollectivesTest, ALargeAllReduceGivesAllTheSameBits) {
  std::mt19937 random(static_cast<unsigned>(rank()));
  for (const int64_t count : {int64_t{5001}, int64_t{65'537} * size()}) {
    const TensorShape shape = TensorShape::Vector(count);
    Call call{
        .request = RequestOf("MpiReduce", AllReduce(), DType::kFloat32, shape),
        .input = *Tensor::Allocate(DType::kFloat32, shape)};
    for (int64_t i = 0; i < count; ++i) {
      StoreFloating(DType::kFloat32,
                    std::ldexp(1.0 / (1 + random() % 1000), i % 7),
                    call.input.mutable_data() + 4 * i);
    }
    Start(call);
    ASSERT_THAT(call.Wait(), IsOk());
    Call of_first{.request = RequestOf("MpiBroadcast", Broadcast{rank() == 0},
                                       DType::kFloat32, shape)};
    if (rank() == 0) of_first.input = call.output;
    Start(of_first);
    ASSERT_THAT(of_first.Wait(), IsOk());
    EXPECT_EQ(std::memcmp(call.output.data(), of_first.output.data(),
                          call.output.size_bytes()),
              0);
  }
}

// And without memory for another tensor.
TEST_F(MpiCollectivesTest, MembersReduceInPlaceOrNotAsTheyLike) {
  for (const int64_t count : kCounts) {
    for (const int parity : {0, 1}) {
      SCOPED_TRACE(count);
      const TensorShape shape = TensorShape::Vector(count);
      Call call{.request =
                    RequestOf("MpiReduce", AllReduce(), DType::kFloat32, shape),
                .input = Filled(DType::kFloat32, shape, rank())};
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

TEST_F(MpiCollectivesTest, EveryReductionIsThatOfTheOtherImplementations) {
  for (const ReductionKind kind : kAllReductionKinds) {
    for (size_t i = 0; i < 2 * kAllDTypes.size(); ++i) {
      const DType dtype = kAllDTypes[i / 2];
      const int64_t count = i % 2 == 0 ? 77 : 4 * kMany;
      if (!CheckSupported(kind, dtype).ok()) continue;
      SCOPED_TRACE(absl::StrCat(Name(kind), " ", Name(dtype), " ", count));
      const TensorShape shape = TensorShape::Vector(count);
      Call by_mpi{.request = RequestOf("MpiReduce", AllReduce(), dtype, shape),
                  .input = Filled(dtype, shape, rank())};
      by_mpi.request.merge_op = kind;
      Call other{.request = RequestOf("RingReduce", AllReduce(), dtype, shape),
                 .input = by_mpi.input};
      other.request.merge_op = kind;
      Start(by_mpi);
      if (size() == 1) other.request.impl_details.implementation.clear();
      Start(other);
      ASSERT_THAT(by_mpi.Wait(), IsOk());
      ASSERT_THAT(other.Wait(), IsOk());
      EXPECT_EQ(std::memcmp(by_mpi.output.data(), other.output.data(),
                            other.output.size_bytes()),
                0);
    }
  }
}

TEST_F(MpiCollectivesTest, TheFinalOpComesLastHoweverManyElements) {
  for (const int64_t count : {3, 100'000}) {
    const TensorShape shape = TensorShape::Vector(count);
    Call call{
        .request = RequestOf("MpiReduce", AllReduce(), DType::kFloat32, shape),
        .input = *Tensor::Allocate(DType::kFloat32, shape)};
    for (int64_t i = 0; i < count; ++i) Set(call.input, i, 2 * rank() + 1);
    call.request.final_op = FinalOp::DivideByGroupSize();
    RunAndCheck(call, [&](int64_t) { return size(); });
  }
}

TEST_F(MpiCollectivesTest, ReduceGivesTheRootTheReduction) {
  for (int root = 0; root < size(); ++root) {
    const TensorShape shape = TensorShape::Vector(1001);
    Call call{.request = RequestOf("MpiReduce", ReduceToRoot{root},
                                   DType::kInt64, shape),
              .input = Filled(DType::kInt64, shape, rank())};
    Start(call);
    ASSERT_THAT(call.Wait(), IsOk());
    if (rank() == root) Check(call.output, [&](int64_t i) { return SumOf(i); });
  }
}

TEST_F(MpiCollectivesTest, ReduceScatterGivesEachItsBlock) {
  for (const DType dtype : {DType::kFloat16, DType::kInt32, DType::kFloat64}) {
    for (const int64_t block : kCounts) {
      for (const bool in_place : {false, true}) {
        const TensorShape shape = TensorShape::Vector(block * size());
        Call call{.request = RequestOf("MpiReduceScatter", ReduceScatter(),
                                       dtype, shape),
                  .input = Filled(dtype, shape, rank())};
        if (in_place) {
          call.output = *call.input.Slice(block * rank(), block * (rank() + 1));
        }
        RunAndCheck(call, [&](int64_t i) { return SumOf(i + block * rank()); });
      }
    }
  }
}

TEST_F(MpiCollectivesTest, GatherGivesAllEveryBlock) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        const TensorShape shape = TensorShape::Vector(count);
        Call call{.request = RequestOf("MpiGather", AllGather(), dtype, shape),
                  .input = Filled(dtype, shape, rank())};
        if (in_place) {
          call.output =
              *Tensor::Allocate(dtype, TensorShape::Vector(count * size()));
          Tensor own = *call.output.Slice(count * rank(), count * (rank() + 1));
          std::copy_n(call.input.data(), call.input.size_bytes(),
                      own.mutable_data());
          call.input = own;
        }
        RunAndCheck(call, [&](int64_t i) {
          const int value = Value(static_cast<int>(i / count), i % count);
          return dtype == DType::kBool ? value % 2 : value;
        });
      }
    }
  }
}

TEST_F(MpiCollectivesTest, GatherTakesAnyNumberOfRowsOfEach) {
  const auto rows_of = [](int rank) { return (rank * 3) % 7; };
  const TensorShape shape = *TensorShape::Create({rows_of(rank()), 11});
  Call call{.request = RequestOf("MpiGather", AllGather{.uneven = true},
                                 DType::kInt32, shape),
            .input = Filled(DType::kInt32, shape, rank())};
  std::vector<int> wanted;
  for (int r = 0; r < size(); ++r) {
    for (int64_t i = 0; i < rows_of(r) * 11; ++i) wanted.push_back(Value(r, i));
  }
  RunAndCheck(call, [&](int64_t i) { return wanted[i]; });
  EXPECT_EQ(call.output.num_elements(), static_cast<int64_t>(wanted.size()));
}

// Of one instance, with the rows of all given in each execution.
class MpiGivenRowsTest : public MpiCollectivesTest {
 protected:
  void Begin(const char* implementation) {
    request_ =
        RequestOf(implementation, AllGather{}, DType::kInt32, TensorShape());
  }

  void Start(Call& call, const std::vector<int64_t>& rows) {
    request_.op = AllGather{.uneven = true, .rows = rows};
    request_.shape = *TensorShape::Create({rows[rank()], 11});
    call.request = request_;
    call.input = Filled(DType::kInt32, request_.shape, rank());
    MpiCollectivesTest::Start(call);
  }

  void RunAndCheck(const std::vector<int64_t>& rows) {
    std::vector<int> wanted;
    for (int r = 0; r < size(); ++r) {
      for (int64_t i = 0; i < rows[r] * 11; ++i) wanted.push_back(Value(r, i));
    }
    Call call;
    Start(call, rows);
    ASSERT_THAT(call.Wait(), IsOk());
    ASSERT_EQ(call.output.num_elements(), static_cast<int64_t>(wanted.size()));
    Check(call.output, [&](int64_t i) { return wanted[i]; });
  }

  // The last rank says that it has 2 rows, the others that it has `of_last`.
  absl::Status RunWithOthersFor(int64_t of_last) {
    std::vector<int64_t> rows(size(), 1);
    rows.back() = rank() == size() - 1 ? 2 : of_last;
    Call call;
    Start(call, rows);
    return call.Wait();
  }

 private:
  CollectiveRequest request_;
};

TEST_F(MpiGivenRowsTest, MayChangeWithEachExecutionByMpiAndByMessages) {
  for (const char* implementation : {"MpiGather", "RingGather"}) {
    Begin(implementation);
    for (int execution = 0; execution < 5; ++execution) {
      std::vector<int64_t> rows;
      for (int r = 0; r < size(); ++r) {
        rows.push_back((r + execution) % 3 + execution / 4);
      }
      RunAndCheck(rows);
    }
  }
}

// Also where one says that there is nothing to send, the other that there is.
TEST_F(MpiGivenRowsTest, WhereTheyDifferItEndsAndTheNextOneRuns) {
  if (size() == 1) return;
  for (const auto& [implementation, text] :
       {std::pair{"MpiGather", "gives other rows than rank 0"},
        {"RingGather", "bytes"}}) {
    Begin(implementation);
    for (const int64_t of_last : {3, 0}) {
      EXPECT_THAT(RunWithOthersFor(of_last),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)))
          << implementation << " " << of_last;
    }
    EXPECT_THAT(RunWithOthersFor(2), IsOk());
  }
}

TEST_F(MpiCollectivesTest, BroadcastGivesAllWhatTheSourceHas) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t count : kCounts) {
      const int source = static_cast<int>(count) % size();
      const bool is_source = rank() == source;
      const TensorShape shape = TensorShape::Vector(count);
      Call call{.request = RequestOf("MpiBroadcast", Broadcast{is_source},
                                     dtype, shape)};
      if (is_source) call.input = Filled(dtype, shape, rank());
      if (is_source && count % 2 == 1) call.output = call.input;
      RunAndCheck(call, [&](int64_t i) {
        const int value = Value(source, i);
        return dtype == DType::kBool ? value % 2 : value;
      });
    }
  }
}

TEST_F(MpiCollectivesTest, AllToAllGivesEachItsBlockOfEach) {
  for (const int64_t block : kCounts) {
    for (const bool in_place : {false, true}) {
      const TensorShape shape = TensorShape::Vector(block * size());
      Call call{
          .request = RequestOf("MpiAllToAll", AllToAll(), DType::kInt8, shape),
          .input = Filled(DType::kInt8, shape, rank())};
      if (in_place) call.output = call.input;
      RunAndCheck(call, [&](int64_t i) {
        return Value(static_cast<int>(i / block), i % block + block * rank());
      });
    }
  }
}

TEST_F(MpiCollectivesTest, AllToAllTakesAnyNumberOfRowsForEach) {
  // What rank a sends rank b.
  const auto rows_of = [](int a, int b) { return (a * 2 + b * 3) % 5; };
  AllToAll op;
  for (int b = 0; b < size(); ++b) op.send_rows.push_back(rows_of(rank(), b));
  const int64_t rows =
      std::accumulate(op.send_rows.begin(), op.send_rows.end(), int64_t{0});
  const TensorShape shape = *TensorShape::Create({rows, 3});
  Call call{.request = RequestOf("MpiAllToAll", op, DType::kInt64, shape),
            .input = Filled(DType::kInt64, shape, rank())};
  std::vector<int> wanted;
  for (int a = 0; a < size(); ++a) {
    int64_t begin = 0;
    for (int b = 0; b < rank(); ++b) begin += rows_of(a, b) * 3;
    for (int64_t i = 0; i < rows_of(a, rank()) * 3; ++i) {
      wanted.push_back(Value(a, begin + i));
    }
  }
  RunAndCheck(call, [&](int64_t i) { return wanted[i]; });
  EXPECT_EQ(call.output.num_elements(), static_cast<int64_t>(wanted.size()));
}

// Every rank starts them in an order of its own, all before the first ends.
TEST_F(MpiCollectivesTest, RanksMayStartStepsAndInstancesInAnyOrder) {
  constexpr int kNumSteps = 5, kNumInstances = 6, kNumRounds = 4;
  const TensorShape shape = TensorShape::Vector(513);
  std::mt19937 random(static_cast<unsigned>(rank()));
  std::vector<CollectiveRequest> requests;
  for (int i = 0; i < kNumInstances; ++i) {
    requests.push_back(
        i % 2 == 0 ? RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape)
                   : RequestOf("MpiBroadcast", Broadcast{rank() == i % size()},
                               DType::kInt32, shape));
  }
  for (int round = 0; round < kNumRounds; ++round) {
    std::vector<int> order(kNumSteps * kNumInstances);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::deque<Call> calls(order.size());
    for (const int i : order) {
      const int instance = i % kNumInstances;
      calls[i].request = requests[instance];
      calls[i].input = Filled(DType::kInt32, shape, rank() + i);
      Start(calls[i], /*step=*/1 + i / kNumInstances);
    }
    for (const int i : order) {
      ASSERT_THAT(calls[i].Wait(), IsOk());
      const int instance = i % kNumInstances;
      Check(calls[i].output, [&](int64_t e) {
        if (instance % 2 == 1) return Value(instance % size() + i, e);
        int sum = 0;
        for (int r = 0; r < size(); ++r) sum += Value(r + i, e);
        return sum;
      });
    }
  }
}

// Group g begins at rank g: all pairs of neighbours, and all ranks turned, each
// with another leader; their communicators are made meanwhile.
TEST_F(MpiCollectivesTest, GroupsThatOverlapMayBeginInAnyOrder) {
  const TensorShape shape = TensorShape::Vector(kMany);
  std::vector<std::pair<int, int>> groups;  // First task, number of tasks.
  for (int first = 0; first < size(); ++first) {
    groups.emplace_back(first, size());
    if (size() > 2) groups.emplace_back(first, 2);
    groups.emplace_back(first, 1);
  }
  std::vector<int> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(),
               std::mt19937(static_cast<unsigned>(rank() * 7)));
  for (int round = 0; round < 3; ++round) {
    std::deque<Call> calls(groups.size());
    for (const int g : order) {
      const auto [first, num_tasks] = groups[g];
      const int own = (rank() - first + size()) % size();
      if (own >= num_tasks) continue;
      Call& call = calls[g];
      call.request = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
      call.request.group_key = 100 + g;
      call.request.group_size = num_tasks;
      call.request.rank = own;
      call.request.instance_key = 1;
      call.input = Filled(DType::kInt32, shape, rank());
      Start(call, 1 + round);
    }
    for (const int g : order) {
      const auto [first, num_tasks] = groups[g];
      if ((rank() - first + size()) % size() >= num_tasks) continue;
      ASSERT_THAT(calls[g].Wait(), IsOk());
      Check(calls[g].output, [&](int64_t i) {
        int sum = 0;
        for (int m = 0; m < groups[g].second; ++m) {
          sum += Value((groups[g].first + m) % size(), i);
        }
        return sum;
      });
    }
  }
}

// A group's communicators are freed with it, which is when no step knows it any
// more; sooner or later, so that the ranks tell each other how many are left.
class MpiCommunicatorsTest : public MpiCollectivesTest {
 protected:
  // Of the rank that has most.
  int MostCommunicators() {
    Call call{
        .request = RequestOf(size() == 1 ? "" : "RingReduce", AllReduce(),
                             DType::kInt32, TensorShape::Vector(1)),
        .input = *Tensor::Allocate(DType::kInt32, TensorShape::Vector(1))};
    call.request.group_key = 7;
    call.request.merge_op = ReductionKind::kMax;
    Set(call.input, 0, num_communicators);
    Start(call, /*step=*/1000);
    EXPECT_THAT(call.Wait(), IsOk());
    int most = 0;
    std::memcpy(&most, call.output.data(), sizeof(most));
    return most;
  }

  void ExpectAllAreFreed() {
    constexpr int kMostLooks = 1000;
    int look = 0;
    while (look < kMostLooks && MostCommunicators() > 0) ++look;
    EXPECT_LT(look, kMostLooks) << num_communicators << " are left here";
  }
};

TEST_F(MpiCommunicatorsTest, AGroupFormedAgainHasAnotherAndAllAreFreed) {
  ExpectAllAreFreed();  // Of the tests before.
  const TensorShape shape = TensorShape::Vector(kMany);
  const auto request =
      RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
  for (int64_t step = 1; step <= 4; ++step) {
    Call call{.request = request,
              .input = Filled(DType::kInt32, shape, rank())};
    Start(call, step);
    ASSERT_THAT(call.Wait(), IsOk());
    Check(call.output, [&](int64_t i) { return SumOf(i); });
    // All have ended it.
    Call barrier{.request = RequestOf("", Barrier(), DType::kInt32, shape)};
    barrier.request.group_key = 7;
    Start(barrier, step);
    ASSERT_THAT(barrier.Wait(), IsOk());
    runtime_->ReformGroup(request.group_key, absl::AbortedError("again"));
  }
  EXPECT_EQ(MostCommunicators(), 4);
  for (int64_t step = 1; step <= 4; ++step) {
    runtime_->manager().Cleanup(step);
  }
  ExpectAllAreFreed();
}

TEST_F(MpiCommunicatorsTest, WhoLeavesKeepsNone) {
  ExpectAllAreFreed();  // Of the tests before.
  const TensorShape shape = TensorShape::Vector(kMany);
  for (int round = 0; round < 5; ++round) {
    // One after the other, so that what was said before them has been heard.
    for (int i = 0; i < 3; ++i) {
      Call call{
          .request = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape),
          .input = Filled(DType::kInt32, shape, rank())};
      RunAndCheck(call, [&](int64_t i) { return SumOf(i); });
    }
    EXPECT_EQ(num_communicators, 1);
    Leave();
    SetUp();
  }
  ExpectAllAreFreed();
}

TEST_F(MpiCommunicatorsTest, SmallReductionsMakeNone) {
  ExpectAllAreFreed();  // Of the tests before.
  const TensorShape shape = TensorShape::Vector(kFew);
  for (const bool to_root : {false, true}) {
    Call call{
        .request = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape),
        .input = Filled(DType::kInt32, shape, rank())};
    if (to_root) call.request.op = ReduceToRoot{0};
    Start(call);
    ASSERT_THAT(call.Wait(), IsOk());
    if (to_root && rank() != 0) continue;
    Check(call.output, [&](int64_t i) { return SumOf(i); });
  }
  EXPECT_EQ(MostCommunicators(), 0);
}

CustomMergeOp Custom(std::string name) {
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

TEST_F(MpiCollectivesTest, CustomMergeOpsAreRunByMpi) {
  for (const int64_t count : kCounts) {
    const TensorShape shape = TensorShape::Vector(count);
    Call call{
        .request = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape),
        .input = Filled(DType::kInt32, shape, rank())};
    call.request.merge_op = *MergeOp::Custom(Custom("add"));
    RunAndCheck(call, [&](int64_t i) { return SumOf(i); });

    const TensorShape blocks = TensorShape::Vector(count * size());
    Call scatter{.request = RequestOf("MpiReduceScatter", ReduceScatter(),
                                      DType::kInt32, blocks),
                 .input = Filled(DType::kInt32, blocks, rank())};
    scatter.request.merge_op = call.request.merge_op;
    RunAndCheck(scatter, [&](int64_t i) { return SumOf(i + count * rank()); });
  }
}

TEST_F(MpiCollectivesTest, AMergeOpThatFailsEndsTheExecutionOnItsRanks) {
  if (size() == 1) return;  // Nothing to merge.
  const TensorShape shape = TensorShape::Vector(3000);
  Call call{
      .request = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape),
      .input = Filled(DType::kInt32, shape, rank())};
  CustomMergeOp op = Custom("broken");
  op.apply = [](DType, const void*, const void*, void*, int64_t) {
    return absl::DataLossError("it is broken");
  };
  call.request.merge_op = *MergeOp::Custom(std::move(op));
  Start(call);
  EXPECT_THAT(call.Wait(),
              AnyOf(StatusIs(absl::StatusCode::kDataLoss, "it is broken"),
                    StatusIs(absl::StatusCode::kInternal,
                             HasSubstr("failed on another rank"))));
}

// Packs for a custom op, and a copy where MPI would read what it writes.
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
  requests[0].merge_op = *MergeOp::Custom(Custom("add"));
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
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                     HasSubstr("no memory for")));
      }
    }
  }
}

class MpiCancelledTest : public MpiCollectivesTest {
 protected:
  void CancelAllReduceOf(int64_t count);
};

void MpiCancelledTest::CancelAllReduceOf(int64_t count) {
  const TensorShape shape = TensorShape::Vector(count);
  const auto request =
      RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
  const auto next = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
  // So that the instance is known and, for what MPI reduces, there is a
  // communicator.
  Call first{.request = request, .input = Filled(DType::kInt32, shape, rank())};
  Start(first);
  ASSERT_THAT(first.Wait(), IsOk());
  if (size() > 1) {
    for (int absent = 0; absent < size(); ++absent) {
      if (rank() != absent) {
        Call call{.request = request,
                  .input = Filled(DType::kInt32, shape, rank())};
        const auto cancellation = std::make_shared<Cancellation>();
        Start(call, /*step=*/10 + absent, cancellation);
        if (rank() == (absent + 1) % size()) {
          cancellation->Cancel(absl::AbortedError("no more of this"));
        }
        EXPECT_THAT(call.Wait(), StatusIs(absl::StatusCode::kAborted,
                                          HasSubstr("no more of this")));
      }
      // The others' come when it has failed, and fail too: see below.
      Call barrier{.request = RequestOf("", Barrier(), DType::kInt32, shape)};
      Start(barrier, /*step=*/30);
      ASSERT_THAT(barrier.Wait(), IsOk());
      if (rank() == absent) {
        Call late{.request = request,
                  .input = Filled(DType::kInt32, shape, rank())};
        Start(late, /*step=*/10 + absent);
        EXPECT_THAT(late.Wait(), StatusIs(absl::StatusCode::kAborted,
                                          HasSubstr("no more of this")));
      }
    }
  }
  Call after{.request = next, .input = Filled(DType::kInt32, shape, rank())};
  Start(after);
  ASSERT_THAT(after.Wait(), IsOk());
  Check(after.output, [&](int64_t i) { return SumOf(i); });
}

TEST_F(MpiCancelledTest, WhatHasNotBegunEndsWithTheErrorOfAnyMember) {
  CancelAllReduceOf(kFew);
}

TEST_F(MpiCancelledTest, SoDoesWhatMpiWouldReduce) { CancelAllReduceOf(kMany); }

class MpiWaitingTest : public MpiCollectivesTest {
 protected:
  // One does not come; the deadline is that of the lowest rank that does.
  void WaitForAbsent(int absent, int64_t count) {
    const TensorShape shape = TensorShape::Vector(count);
    const auto request =
        RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
    // So that the instance is known.
    Call first{.request = request,
               .input = Filled(DType::kInt32, shape, rank())};
    Start(first);
    ASSERT_THAT(first.Wait(), IsOk());
    if (rank() != absent) {
      Call call{.request = request,
                .input = Filled(DType::kInt32, shape, rank())};
      const bool is_lowest = rank() == (absent == 0 ? 1 : 0);
      Start(call, /*step=*/1, /*cancellation=*/nullptr, /*device=*/0,
            is_lowest ? absl::Milliseconds(500) : absl::InfiniteDuration());
      const bool has_leader = size() > 2 || count == kMany;
      const auto is_of_leader = HasSubstr(", which says when all are ready");
      EXPECT_THAT(call.Wait(),
                  StatusIs(absl::StatusCode::kDeadlineExceeded,
                           AllOf(HasSubstr("who wait for data of "),
                                 HasSubstr(absl::StrCat("rank ", absent, " (")),
                                 testing::Conditional(
                                     absent == 0 && has_leader, is_of_leader,
                                     testing::Not(is_of_leader)))));
    }
    Call barrier{.request = RequestOf("", Barrier(), DType::kInt32, shape)};
    Start(barrier);
    ASSERT_THAT(barrier.Wait(), IsOk());
  }
};

TEST_F(MpiWaitingTest, WhoIsWaitedForIsNamedWhenTheDeadlinePasses) {
  if (size() == 1) return;
  for (const int64_t count : {kFew, kMany}) {
    for (const int absent : {size() - 1, 0}) WaitForAbsent(absent, count);
  }
}

TEST_F(MpiCollectivesTest, TheEndOfAGroupEndsWhatHasNotBegun) {
  if (size() == 1) return;
  const TensorShape shape = TensorShape::Vector(100);
  const auto request =
      RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape);
  Call first{.request = request, .input = Filled(DType::kInt32, shape, rank())};
  Start(first);
  ASSERT_THAT(first.Wait(), IsOk());
  Call barrier{.request = RequestOf("", Barrier(), DType::kInt32, shape)};
  barrier.request.group_key = 7;
  Start(barrier, /*step=*/3);
  ASSERT_THAT(barrier.Wait(), IsOk());
  if (rank() == size() - 1) {
    return runtime_->ReformGroup(request.group_key, absl::AbortedError("over"));
  }
  // Joins the group before or after its end: then it waits for the next one.
  Call call{.request = request, .input = Filled(DType::kInt32, shape, rank())};
  const auto cancellation = std::make_shared<Cancellation>();
  Start(call, /*step=*/2, cancellation);
  cancellation->Cancel(absl::AbortedError("over"));
  EXPECT_THAT(call.Wait(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("over")));
}

// All but one wait for that one, which ends its runtime without a word, or they
// end theirs.
TEST_F(MpiWaitingTest, TheEndOfARuntimeEndsWhatWaitsInItAndForIt) {
  if (size() == 1) return;
  for (const int64_t count : {kFew, kMany}) {
    for (const bool absent_ends : {false, true}) {
      const TensorShape shape = TensorShape::Vector(count);
      Call call{
          .request = RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape),
          .input = Filled(DType::kInt32, shape, rank())};
      // So that the instance is known.
      Start(call);
      ASSERT_THAT(call.Wait(), IsOk());
      // Whoever comes out of it knows that this has ended on all; others may
      // still be in it.
      Call barrier{.request = RequestOf("", Barrier(), DType::kInt32, shape)};
      Start(barrier);
      barrier.Wait().IgnoreError();
      const bool is_absent = rank() == 0;
      Call waiting{.request = call.request, .input = call.input};
      if (!is_absent) Start(waiting, /*step=*/2);
      if (is_absent == absent_ends) runtime_.reset();
      if (!is_absent) {
        EXPECT_THAT(waiting.Wait(), testing::Not(IsOk()));
      }
      runtime_.reset();
      SetUp();
    }
  }
}

TEST_F(MpiCollectivesTest, ANameThatCannotServeIsAnErrorThatListsWhatCan) {
  const TensorShape shape = TensorShape::Vector(4);
  Call call{
      .request = RequestOf("MpiGather", AllReduce(), DType::kInt32, shape),
      .input = Filled(DType::kInt32, shape, rank())};
  Start(call);
  EXPECT_THAT(call.Wait(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("MpiGather does not do all_reduce; "
                                       "these can serve: "),
                             HasSubstr("MpiReduce"))));
}

// What its members had begun before is not met by those that call it anew.
// There is so much of it that a part waits to be sent.
TEST_F(MpiCollectivesTest, AStepThatBeginsAnewReducesNothingOfBefore) {
  constexpr absl::Duration kLimit = absl::Seconds(30);
  constexpr size_t kNumInstances = 100;
  constexpr int64_t kMostSteps = 8;
  for (const int64_t count : {kFew, kMany}) {
    const TensorShape shape = TensorShape::Vector(count);
    std::vector<CollectiveRequest> requests;
    for (size_t i = 0; i < kNumInstances; ++i) {
      requests.push_back(
          RequestOf("MpiReduce", AllReduce(), DType::kInt32, shape));
    }
    const auto start_all = [&](std::deque<Call>& calls, int value_of,
                               int64_t step) {
      for (const CollectiveRequest& request : requests) {
        Call& call = calls.emplace_back();
        call.request = request;
        call.input = Filled(DType::kInt32, shape, value_of);
        Start(call, step, nullptr, 0, kLimit);
      }
    };
    std::deque<Call> settle;
    start_all(settle, rank(), /*step=*/1);
    for (Call& call : settle) ASSERT_THAT(call.Wait(), IsOk());
    for (int64_t step = 2; step < kMostSteps; ++step) {
      std::deque<Call> old;
      if (rank() > 0) start_all(old, /*value_of=*/100, step);
      // By then rank 0 knows who is ready.
      Call known{.request = RequestOf("MpiReduce", AllReduce(), DType::kInt32,
                                      TensorShape::Vector(1)),
                 .input = Filled(DType::kInt32, TensorShape::Vector(1), 0)};
      Start(known);
      ASSERT_THAT(known.Wait(), IsOk());
      std::deque<Call> anew;
      BlockingCounter begun(1);
      const auto start_anew = [&] {
        start_all(anew, rank(), step);
        begun.DecrementCount();
      };
      if (rank() == 0) {  // As early as it may.
        runtime_->CleanupStep(step, [&](const absl::Status& cleaned_up) {
          EXPECT_THAT(cleaned_up, IsOk());
          start_anew();
        });
      } else {
        for (Call& call : old) EXPECT_FALSE(call.Wait().ok());
        start_anew();
      }
      begun.Wait();
      for (Call& call : anew) {
        ASSERT_THAT(call.Wait(), IsOk());
        Check(call.output, [&](int64_t i) { return SumOf(i); });
      }
    }
  }
}

TEST_F(MpiCollectivesTest, AllProcessesThatRefreshGoOnFromTheSameStep) {
  constexpr int64_t kGraph = 5;
  StepSequenceInterface& sequence = runtime_->manager().step_sequence();
  EXPECT_EQ(sequence.NextStepId(kGraph), kInvalidStepId);
  EXPECT_THAT(Await([&](StatusCallback done) {
                sequence.RefreshStepIdSequenceAsync(kGraph, std::move(done));
              }),
              IsOk());
  const int64_t first = sequence.NextStepId(kGraph);
  EXPECT_GE(first, 0);
  const TensorShape shape = TensorShape::Vector(1);
  Call of_all{
      .request = RequestOf("MpiGather", AllGather(), DType::kInt64, shape),
      .input = *Tensor::Allocate(DType::kInt64, shape)};
  StoreInteger(DType::kInt64, first, of_all.input.mutable_data());
  Start(of_all);
  ASSERT_THAT(of_all.Wait(), IsOk());
  for (int r = 0; r < size(); ++r) {
    EXPECT_EQ(std::memcmp(of_all.output.data() + 8 * r, &first, 8), 0) << r;
  }
  sequence.RetireStepId(kGraph, first);
  EXPECT_EQ(sequence.NextStepId(kGraph), first + 1);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == std::string("funneled")) {
    tutti::GrantFunneledOnly();
  }
  return tutti::RunTestsUnderMpi(&argc, argv);
}
