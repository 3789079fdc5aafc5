// Tests groups whose devices lack NCCL, or devices that NCCL cannot serve.
// Another implementation runs. A request that names NCCL's gets the reason.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace nccl_devices_test {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr int64_t kBlock = 3;

// Reduce-scatters of blocks of uint8, for which no other implementation uses a
// single pass of GPUs, or all-reduces of them.
class Sums {
 public:
  explicit Sums(FakeNcclTasks::Options options,
                CollectiveOp op = ReduceScatter{})
      : tasks_(options), outputs_(tasks_.size()) {
    request_ =
        tasks_.Request(std::move(op), DType::kUint8, kBlock * tasks_.size());
  }

  FakeNcclTasks& tasks() { return tasks_; }
  CollectiveRequest& request() { return request_; }
  int num_keys() { return tasks_.network().counts().ids; }
  int num_launches() { return tasks_.network().counts().launches; }

  void CallAll(const std::string& implementation) {
    request_.impl_details.implementation = implementation;
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      const Tensor input = tasks_.Allocate(rank, DType::kUint8, request_.shape);
      tasks_.Write(
          rank, input,
          Bytes(kBlock * tasks_.size(), static_cast<uint8_t>(rank + 1)));
      outputs_[rank] = Tensor();
      tasks_.Call(rank, request_, input, &outputs_[rank]);
    }
    for (int i = 0; i < 20; ++i) tasks_.RunAll();
  }

  void ExpectSums(const std::string& implementation = "") {
    const int sum = tasks_.size() * (tasks_.size() + 1) / 2;
    ExpectAll(static_cast<uint8_t>(sum), implementation);
  }

  void ExpectAll(uint8_t result, const std::string& implementation = "") {
    CallAll(implementation);
    ASSERT_THAT(tasks_.TakeCalls(), Each(Optional(IsOk())));
    for (int rank = 0; rank < tasks_.size(); ++rank) {
      EXPECT_THAT(tasks_.Read(rank, outputs_[rank]), Each(result));
    }
  }

  // Expects that all members are refused with the alternatives, and nothing is
  // left.
  void ExpectRefused(const std::string& implementation,
                     const std::string& why_not) {
    CallAll(implementation);
    EXPECT_THAT(tasks_.TakeCalls(),
                Each(Optional(StatusIs(
                    absl::StatusCode::kInvalidArgument,
                    HasSubstr(absl::StrCat(": ", implementation, " ", why_not,
                                           "; these can serve: "))))));
    EXPECT_EQ(tasks_.network().counts().inits, 0);
  }

  std::vector<std::string> Remains() {
    outputs_.clear();
    return tasks_.Remains();
  }

 private:
  FakeNcclTasks tasks_;
  CollectiveRequest request_;
  std::vector<Tensor> outputs_;
};

TEST(NcclDevicesTest, WhereNothingIsLackingNcclServes) {
  Sums sums({.gpus_per_task = 3});
  sums.ExpectSums();
  EXPECT_EQ(sums.num_keys(), 1);
  EXPECT_EQ(sums.num_launches(), 1);
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclDevicesTest, WithoutNcclOthersServe) {
  Sums sums({.gpus_per_task = 3, .tasks_with_nccl = 0});
  sums.ExpectSums();
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclDevicesTest, WithTwoDevicesOnOneGpuOthersServe) {
  Sums sums({.gpus_per_task = 2, .devices_per_gpu = 2});
  sums.ExpectSums();
  EXPECT_EQ(sums.num_keys(), 0);
  EXPECT_EQ(sums.num_launches(), 0);
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclDevicesTest, WhereTheLeaderMakesNoKeyOthersServe) {
  Sums sums({.gpus_per_task = 2});
  sums.tasks().network().FailNextId(absl::InternalError("no socket"));
  sums.ExpectSums();
  EXPECT_EQ(sums.num_launches(), 0);
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclDevicesTest, WhoLacksNcclIsNamed) {
  Sums sums({.num_tasks = 2, .tasks_with_nccl = 1});
  const std::string why_not =
      "needs NCCL, which rank 2 (/job:localhost/replica:0/task:1/device:GPU:0) "
      "and 1 more do not have";
  sums.ExpectRefused("NcclReduceScatter", why_not);
  Sums all_reduces({.num_tasks = 2, .tasks_with_nccl = 1}, AllReduce{});
  all_reduces.ExpectRefused("NcclThenRing", why_not);
  EXPECT_EQ(sums.num_keys() + all_reduces.num_keys(), 0);
}

TEST(NcclDevicesTest, WhoAreOnOneGpuAreNamed) {
  Sums sums({.gpus_per_task = 2, .devices_per_gpu = 2});
  sums.ExpectRefused(
      "NcclReduceScatter",
      "needs each member on a GPU of its own, but ranks 0 and 1 "
      "(/job:localhost/replica:0/task:0/device:GPU:0 and "
      "/job:localhost/replica:0/task:0/device:GPU:1) are on one");
}

TEST(NcclDevicesTest, WhoOfTwoProcessesAreOnOneGpuAreNamed) {
  Sums sums({.num_tasks = 2, .shares_gpus = true});
  sums.ExpectRefused(
      "NcclReduceScatter",
      "needs each member on a GPU of its own, but ranks 0 and 2 "
      "(/job:localhost/replica:0/task:0/device:GPU:0 and "
      "/job:localhost/replica:0/task:1/device:GPU:0) are on one");
}

TEST(NcclDevicesTest, WhyTheLeaderMadeNoKeyIsSaid) {
  Sums sums({});
  sums.tasks().network().FailNextId(absl::InternalError("no socket"));
  sums.ExpectRefused("NcclReduceScatter",
                     "needs a key that the group's leader has not made: "
                     "no socket");
}

TEST(NcclDevicesTest, HybridsNeedNothingOfWhoIsAloneInItsProcess) {
  Sums sums({.num_tasks = 2,
             .gpus_per_task = 1,
             .shares_gpus = true,
             .tasks_with_nccl = 0},
            AllReduce{});
  sums.ExpectSums("NcclThenRing");
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclDevicesTest, HybridsShareGpusWithOtherProcesses) {
  Sums sums({.num_tasks = 2, .shares_gpus = true}, AllReduce{});
  sums.ExpectSums("NcclThenRing");
  EXPECT_THAT(sums.Remains(), IsEmpty());
}

TEST(NcclDevicesTest, BitOpsAreLeftToOthers) {
  for (const auto& [kind, result] : {std::pair(ReductionKind::kBand, 1 & 2),
                                     {ReductionKind::kBor, 1 | 2},
                                     {ReductionKind::kBxor, 1 ^ 2}}) {
    for (const int num_tasks : {1, 2}) {
      Sums sums({.num_tasks = num_tasks, .gpus_per_task = 2 / num_tasks},
                AllReduce{});
      sums.request().merge_op = kind;
      sums.request().instance_key = 1;
      sums.ExpectRefused("NcclReduce",
                         absl::StrCat("has no merge op \"", Name(kind),
                                      "\", which NCCL lacks"));
      sums.request().instance_key = 2;
      sums.ExpectAll(static_cast<uint8_t>(result));
      EXPECT_EQ(sums.num_launches(), 0);
      EXPECT_THAT(sums.Remains(), IsEmpty());
    }
  }
}

TEST(NcclDevicesTest, FunctionsOfTheHostAreRefused) {
  const auto apply = [](auto...) { return absl::OkStatus(); };
  Sums merges({.gpus_per_task = 2}, AllReduce{});
  merges.request().merge_op =
      *MergeOp::Custom({.name = "mine", .commutative = true, .apply = apply});
  merges.ExpectRefused("NcclReduce",
                       "cannot run the merge op \"mine\", a function of the "
                       "host, on a GPU");
  Sums ends({.gpus_per_task = 2}, AllReduce{});
  ends.request().final_op = *FinalOp::Custom({.name = "end", .apply = apply});
  ends.ExpectRefused("NcclReduce",
                     "cannot run the final op \"end\", a function of the "
                     "host, on a GPU");
}

}  // namespace nccl_devices_test
}  // namespace tutti
