// Tests of named tensors over MPI. Each process of a job runs them, in step
// with the others: mpirun_test.py starts the processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "named_tensors/tensor_request.h"
#include "tests/cluster/named_call.h"
#include "tests/cluster/named_tensor_cases.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_task.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/named_tensors.h"

namespace tutti {
namespace {

using ::testing::Each;

// Blocks, since other threads answer the calls.
bool WaitForAll(const std::vector<NamedCallPtr>& calls) {
  for (const NamedCallPtr& call : calls) call->Wait();
  return true;
}

class MpiNamedTensorsTest : public testing::Test {
 protected:
  void SetUp() override { Begin({}); }
  void TearDown() override { End(); }

  // Replaces the current runtime: a coordinator cannot be restarted after a
  // shutdown.
  void Begin(CoordinatorSettings settings) {
    End();
    auto runtime = JoinedMpiTask({.coordinator = std::move(settings)});
    ASSERT_THAT(runtime, IsOk());
    runtime_ = *std::move(runtime);
  }
  void End() {
    if (runtime_ == nullptr) return;
    EXPECT_THAT(LeaveMpiTask(std::move(runtime_)), IsOk());
  }

  int rank() const { return runtime_->cluster().this_task; }
  int size() const { return runtime_->cluster().num_tasks(); }
  Coordinator& here() { return runtime_->coordinator(); }
  RanksHere ranks() {
    return {.num_ranks = size(), .coordinators = {{rank(), &here()}}};
  }

  NamedCallPtr Reduce(const std::string& name, float value = 1) {
    return CallAllReduce(
        here(), name, Filled(DType::kFloat32, TensorShape::Vector(3), value));
  }
  absl::Status ReduceAndWait(const std::string& name) {
    const NamedCallPtr call = Reduce(name);
    call->Wait();
    return call->status;
  }

  // Expects `values` to be equal on all ranks.
  void ExpectSameOnAll(const std::vector<float>& values) {
    Tensor own = *Tensor::Allocate(
        DType::kFloat32,
        TensorShape::Vector(static_cast<int64_t>(values.size())));
    std::copy(values.begin(), values.end(),
              reinterpret_cast<float*>(own.mutable_data()));
    for (const ReductionKind kind :
         {ReductionKind::kMin, ReductionKind::kMax}) {
      const NamedCallPtr call = CallAllReduce(here(), "found", own, kind);
      call->Wait();
      ASSERT_THAT(call->status, IsOk());
      EXPECT_EQ(call->Values(), values);
    }
  }

  std::unique_ptr<ClusterRuntime> runtime_;
};

TEST_F(MpiNamedTensorsTest, AllThreadsOfAllRanksMeet) {
  for (const int64_t fusion_bytes : {0, 2000, 64 << 20}) {
    Begin({.fusion_bytes = fusion_bytes});
    ExpectAllThreadsMeet(ranks());
  }
}

TEST_F(MpiNamedTensorsTest, ChainsOfRequestsEnd) { ExpectChainsEnd(ranks()); }

TEST_F(MpiNamedTensorsTest, NamesAreAnyBytes) {
  ExpectNamesAreAnyBytes(ranks(), WaitForAll);
}

TEST_F(MpiNamedTensorsTest, EveryRankHearsWhatDiffersAndTheNameCanBeUsedAgain) {
  ExpectAllHearWhatDiffers(ranks(), WaitForAll);
}

TEST_F(MpiNamedTensorsTest, ANameAskedForTwiceBeforeItRanIsRefused) {
  if (size() == 1) GTEST_SKIP() << "alone, a rank waits for nobody";
  ExpectASecondRequestIsRefused(ranks(), WaitForAll);
}

// --- Ranks that are missing --------------------------------------------------

// Reports about one name.
class Reports {
 public:
  explicit Reports(std::string name) : name_(std::move(name)) {}

  void Add(const StalledTensor& tensor) ABSL_LOCKS_EXCLUDED(mu_) {
    if (tensor.name != name_) return;
    {
      MutexLock lock(&mu_);
      reports_.push_back(tensor);
    }
    first_.DecrementCount();
  }
  void WaitForTheFirst() { first_.Wait(); }
  std::vector<StalledTensor> reports() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return reports_;
  }

 private:
  const std::string name_;
  BlockingCounter first_{1};
  Mutex mu_;
  std::vector<StalledTensor> reports_ ABSL_GUARDED_BY(mu_);
};

// The last rank requests the tensor first; the others once rank zero has the
// report.
TEST_F(MpiNamedTensorsTest, ATensorThatStallsIsReportedOnceOnRankZero) {
  if (size() == 1) GTEST_SKIP() << "alone, a rank waits for nobody";
  const auto slow = std::make_shared<Reports>("slow");
  Begin({.stall_report_after = absl::Milliseconds(1),
         .stalled = [slow](const auto& tensor) { slow->Add(tensor); }});
  const int requester = size() - 1;
  const bool is_zero = rank() == 0;
  std::vector<int> others;
  for (int rank = 0; rank < requester; ++rank) others.push_back(rank);

  std::vector<NamedCallPtr> calls;
  if (rank() == requester) calls.push_back(Reduce("slow"));
  if (is_zero) slow->WaitForTheFirst();
  EXPECT_THAT(ReduceAndWait("reported"), IsOk());
  if (rank() != requester) calls.push_back(Reduce("slow"));
  WaitForAll(calls);
  EXPECT_THAT(calls[0]->status, IsOk());
  EXPECT_THAT(calls[0]->Values(), Each(static_cast<float>(size())));

  End();
  const std::vector<StalledTensor> reports = slow->reports();
  ASSERT_EQ(reports.size(), is_zero ? 1u : 0u);
  if (!is_zero) return;
  EXPECT_EQ(reports[0].present, std::vector<int>{requester});
  EXPECT_EQ(reports[0].missing, others);
  EXPECT_GE(reports[0].waited, absl::Milliseconds(1));
}

// The other ranks request nothing.
TEST_F(MpiNamedTensorsTest, ALimitEndsATensorThatStalls) {
  if (size() == 1) GTEST_SKIP() << "alone, a rank waits for nobody";
  for (const int requester : {0, size() - 1}) {
    Begin({.stall_deadline = absl::Milliseconds(10),
           .stalled = [](const auto&) {}});
    if (rank() != requester) continue;
    std::vector<int> others;
    for (int rank = 0; rank < size(); ++rank) {
      if (rank != requester) others.push_back(rank);
    }
    EXPECT_THAT(ReduceAndWait("slow"),
                IsDeadlineExceeded(
                    "tensor \"slow\"",
                    absl::StrCat("ranks that have not: ", RanksText(others))));
  }
}

// --- The end -----------------------------------------------------------------

// State of the ranks when the coordinator is shut down.
enum class Activity {
  kNothing,
  kOneWaits,
  kAllRequest,
  kAllHaveRun,
  kAllHaveFailed
};
constexpr Activity kActivities[] = {
    Activity::kNothing, Activity::kOneWaits, Activity::kAllRequest,
    Activity::kAllHaveRun, Activity::kAllHaveFailed};

class ShutdownTest : public MpiNamedTensorsTest {
 protected:
  // Waits until all ranks have started: requests of a rank that starts later
  // would fail.
  void MeetAll() { WaitForAll({Reduce("met by all")}); }

  // Makes this rank's requests for the activity.
  std::vector<NamedCallPtr> BringTo(Activity activity) {
    std::vector<NamedCallPtr> calls;
    switch (activity) {
      case Activity::kNothing:
        return calls;
      case Activity::kOneWaits:
        if (rank() == size() - 1) calls.push_back(Reduce("one asks for it"));
        return calls;
      case Activity::kAllHaveFailed:
        calls.push_back(CallAllGather(
            here(), "scalar", Filled(DType::kFloat32, TensorShape(), 0)));
        WaitForAll(calls);
        EXPECT_TRUE(absl::IsFailedPrecondition(calls[0]->status));
        return {};
      case Activity::kAllRequest:
      case Activity::kAllHaveRun:
        for (int i = 0; i < kNumNames; ++i) {
          calls.push_back(Reduce(absl::StrCat("tensor ", i)));
        }
        break;
    }
    if (activity == Activity::kAllHaveRun) WaitForAll(calls);
    return calls;
  }

  // Checks a request made before `by` shut down; -1 means that all ranks shut
  // down.
  void Check(const NamedCall& call, Activity activity, int by) {
    EXPECT_EQ(call.num_answers, 1);
    const bool must_end = activity == Activity::kOneWaits && size() > 1;
    const bool must_run = activity == Activity::kAllHaveRun;
    if (must_run || (call.status.ok() && !must_end)) {
      EXPECT_THAT(call.status, IsOk());
      EXPECT_THAT(call.Values(), Each(static_cast<float>(size())));
    } else {
      EXPECT_THAT(
          call.status,
          IsCancelled(by < 0 ? "task " : absl::StrCat("task ", by, " ")));
    }
  }

  void ShutDownTwice() {
    BlockingCounter down(2);
    for (int i = 0; i < 2; ++i) {
      here().Shutdown([&down](const absl::Status& status) {
        EXPECT_THAT(status, IsOk());
        down.DecrementCount();
      });
    }
    down.Wait();
  }

  static constexpr int kNumNames = 3;
};

TEST_F(ShutdownTest, LeavesNobodyWaitingInAnyState) {
  std::vector<float> ran;  // By name, for each round with kAllRequest.
  for (const Activity activity : kActivities) {
    for (const int by : {-1, 0, size() - 1}) {
      SCOPED_TRACE(
          absl::StrCat("activity ", static_cast<int>(activity), ", by ", by));
      Begin({});
      const std::vector<NamedCallPtr> calls = BringTo(activity);
      if (by < 0 || by == rank()) ShutDownTwice();
      WaitForAll(calls);
      for (const NamedCallPtr& call : calls) {
        Check(*call, activity, by);
        if (activity == Activity::kAllRequest) ran.push_back(call->status.ok());
      }
      for (int i = 0; i < 2; ++i) {
        EXPECT_THAT(ReduceAndWait("late"), IsCancelled("shut"));
      }
    }
  }
  Begin({});
  ExpectSameOnAll(ran);
}

TEST_F(ShutdownTest, AmongThreadsLeavesNobodyWaiting) {
  std::vector<float> ran;
  for (const int by : {0, size() - 1}) {
    Begin({});
    const auto here = ExpectAShutdownLeavesNoThreadWaiting(ranks(), by);
    ran.insert(ran.end(), here.at(rank()).begin(), here.at(rank()).end());
  }
  Begin({});
  ExpectSameOnAll(ran);
}

// Sends no message to the other ranks.
TEST_F(ShutdownTest, TheDestructionOfARuntimeEndsWhatItsRankWaitsFor) {
  if (size() == 1) GTEST_SKIP() << "alone, a rank waits for nobody";
  MeetAll();
  const NamedCallPtr call = Reduce(absl::StrCat("asked for by rank ", rank()));
  runtime_.reset();
  WaitForAll({call});
  EXPECT_EQ(call->num_answers, 1);
  EXPECT_FALSE(call->status.ok());
}

// Covers a runtime that waits for a tensor, and one that does not.
TEST_F(ShutdownTest, TheDestructionOfOneRuntimeEndsWhatTheOthersWaitFor) {
  if (size() == 1) GTEST_SKIP() << "alone, a rank waits for nobody";
  for (const int gone : {0, size() - 1}) {
    for (const bool requests : {false, true}) {
      SCOPED_TRACE(absl::StrCat("rank ", gone, requests ? ", which asks" : ""));
      Begin({});
      MeetAll();
      std::vector<NamedCallPtr> calls;
      if (requests || rank() != gone) {
        calls.push_back(Reduce(absl::StrCat("asked for by rank ", rank())));
      }
      if (rank() == gone) runtime_.reset();
      WaitForAll(calls);
      for (const NamedCallPtr& call : calls) {
        EXPECT_EQ(call->num_answers, 1);
        EXPECT_FALSE(call->status.ok());
      }
      runtime_.reset();
    }
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::RunTestsUnderMpi(&argc, argv); }
