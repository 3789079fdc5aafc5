// Aborts of what hangs in NCCL: it ends within 5 s, and the next generation of
// the group works.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/gpu_group.h"
#include "bench/gpu/gpu_machine.h"
#include "bench/gpu/pending_calls.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/nccl_order.h"
#include "gtest/gtest.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr absl::Duration kBound = absl::Seconds(5);

// Time after which a call that does not hang has ended.
constexpr absl::Duration kPause = absl::Milliseconds(50);

class AbortChecks : public GpuCheck {
 protected:
  void SetUp() override {
    if (!WhyNoNccl().empty()) GTEST_SKIP() << WhyNoNccl();
    const std::string& why_blocking = (*machine().nccl)->WhyBlocking();
    if (!why_blocking.empty()) {
      GTEST_SKIP() << "NCCL would wait for the rank: " << why_blocking;
    }
  }

  Clock& clock() { return *machine().environment.clock; }

  void Pause() {
    PendingCalls calls;
    clock().CallAt(clock().Now() + kPause,
                   [end = calls.Add("a pause")]() mutable {
                     std::move(end)(absl::OkStatus());
                   });
    Ok(machine().waiter.Wait(calls));
  }

  // Expects that the calls hang, and end by `abort` in time, with its reason.
  void ExpectAbort(PendingCalls& calls,
                   absl::FunctionRef<void(absl::Status reason)> abort) {
    Pause();
    ASSERT_FALSE(calls.have_ended()) << calls.status();
    const absl::Time begin = clock().Now();
    abort(absl::AbortedError("the check has had enough"));
    const absl::Status status = machine().waiter.Wait(calls);
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    EXPECT_LE(clock().Now() - begin, kBound);
  }

  // Tasks with a GPU each, and a byte of each to be added up.
  void MakeTasks(int num_tasks) {
    group_ = std::make_unique<GpuGroup>(
        machine(), GroupShape{.num_tasks = num_tasks, .nccl = *machine().nccl});
    for (int rank = 0; rank < num_tasks; ++rank) {
      inputs_.push_back(group_->Allocate(rank, DType::kUint8, 1));
      outputs_.push_back(group_->Allocate(rank, DType::kUint8, 1));
      group_->Write(rank, inputs_[rank], {static_cast<uint8_t>(rank + 1)});
    }
    group_->Finish();
  }

  GpuGroup& group() { return *group_; }

  void Call(int rank, int64_t step, PendingCalls* calls) {
    CollectiveRequest request = group_->Request(AllReduce{}, DType::kUint8, 1);
    request.instance_key = 0;
    request.rank = rank;
    request.impl_details.implementation = "NcclReduce";
    group_->executor(rank, step)
        ->ExecuteAsync({.device = &group_->device(rank),
                        .request = std::make_shared<const CollectiveRequest>(
                            std::move(request)),
                        .input = inputs_[rank],
                        .output = &outputs_[rank]},
                       calls->Add(absl::StrCat("NcclReduce of rank ", rank)));
  }

  // Lets all ranks call, and expects the sum.
  void ExpectSums(int64_t step) {
    PendingCalls calls;
    for (int rank = 0; rank < group_->size(); ++rank) Call(rank, step, &calls);
    Ok(machine().waiter.Wait(calls));
    std::vector<const uint8_t*> found;
    for (int rank = 0; rank < group_->size(); ++rank) {
      found.push_back(group_->Read(rank, outputs_[rank]));
    }
    group_->Finish();
    for (const uint8_t* const sum : found) {
      EXPECT_EQ(*sum, group_->size() * (group_->size() + 1) / 2);
    }
  }

 private:
  std::unique_ptr<GpuGroup> group_;
  std::vector<Tensor> inputs_, outputs_;
};

TEST_F(AbortChecks, EndACommunicatorThatLacksARank) {
  const std::string id = (*machine().nccl)->NewUniqueId().value();
  PendingCalls calls;
  const auto cancellation = std::make_shared<Cancellation>();
  const auto group = std::make_shared<NcclGroup>();
  group->Add(
      [&] {
        return NcclGroup::Options{.nccl = *machine().nccl,
                                  .id = id,
                                  .size = 2,
                                  .ranks = {{.rank = 0, .gpu = 0}},
                                  .environment = machine().environment,
                                  .cancellation = cancellation};
      },
      {.begin = [](const NcclTicket& /*ticket*/,
                   absl::Span<const NcclComm> /*comms*/)
           -> absl::StatusOr<std::vector<NcclPart>> {
         return absl::InternalError("wanted: no communicator without rank 1");
       },
       .launched = calls.Add("the communicator")});
  ExpectAbort(calls,
              [&](absl::Status reason) { group->Break(std::move(reason)); });
  if (HasFailure()) return;
  MakeTasks(1);
  ExpectSums(/*step=*/1);
}

TEST_F(AbortChecks, EndAnNcclReduceThatLacksARank) {
  if (machine().num_gpus() < 2) GTEST_SKIP() << "there is one GPU";
  MakeTasks(2);
  ExpectSums(/*step=*/1);
  if (HasFailure()) return;
  PendingCalls calls;
  Call(/*rank=*/0, /*step=*/2, &calls);
  // NCCL has put work on its stream by then. The abort lets the stream go on.
  Pause();
  runtime()
      .CallHost(calls.Add("the stream of NCCL"),
                group().device(0).nccl_stream())
      .IgnoreError();  // The callback has the error.
  ExpectAbort(calls, [&](absl::Status reason) {
    group().executor(/*rank=*/0, /*step=*/2)->StartAbort(std::move(reason));
  });
  group().EndGroup(absl::AbortedError("it is formed again"));
  ExpectSums(/*step=*/3);
}

}  // namespace
}  // namespace tutti
