#include "bench/gpu/abort_checks.h"

#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "bench/gpu/pending_calls.h"
#include "bench/gpu/suite_machine.h"
#include "bench/gpu/suite_tasks.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/nccl_order.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

// Of an abort, as promised.
constexpr absl::Duration kBound = absl::Seconds(5);

// What does not hang would have ended by then.
constexpr absl::Duration kWhile = absl::Milliseconds(50);

constexpr char kReason[] = "the check has had enough";

absl::Status WaitAWhile(SuiteMachine& machine) {
  PendingCalls calls;
  Clock& clock = *machine.environment().clock;
  clock.CallAt(clock.Now() + kWhile, [end = calls.Add("a while")]() mutable {
    std::move(end)(absl::OkStatus());
  });
  return machine.Wait(calls);
}

// That the calls hang, and that `abort` ends them in time, with its reason.
absl::Status CheckAbort(SuiteMachine& machine, PendingCalls& calls,
                        absl::FunctionRef<void(absl::Status reason)> abort) {
  absl::Status status = WaitAWhile(machine);
  if (!status.ok()) return status;
  if (calls.have_ended()) {
    return absl::InternalError(
        absl::StrCat("wanted: what lacks a rank hangs; it has ended with ",
                     calls.status().ToString()));
  }
  Clock& clock = *machine.environment().clock;
  const absl::Time begin = clock.Now();
  abort(absl::AbortedError(kReason));
  status = machine.Wait(calls);
  const absl::Duration took = clock.Now() - begin;
  if (!absl::IsAborted(status)) {
    return absl::InternalError(absl::StrCat(
        "wanted: an end with the abort's reason; found ", status.ToString()));
  }
  if (took <= kBound) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the abort took ", absl::FormatDuration(took),
                   ", more than ", absl::FormatDuration(kBound)));
}

absl::Status CheckNextGeneration(SuiteTasks& tasks, int64_t step) {
  return During("in the next generation", tasks.CheckSums(step));
}

// Rank 0 of a communicator of two ranks.
absl::Status CheckInit(SuiteMachine& machine,
                       const std::shared_ptr<NcclRuntime>& nccl) {
  const absl::StatusOr<std::string> id = nccl->NewUniqueId();
  if (!id.ok()) return id.status();
  PendingCalls calls;
  const auto cancellation = std::make_shared<Cancellation>();
  const auto group = std::make_shared<NcclGroup>();
  group->Add(
      [&] {
        return NcclGroup::Options{.nccl = nccl,
                                  .id = *id,
                                  .size = 2,
                                  .ranks = {{.rank = 0, .gpu = 0}},
                                  .environment = machine.environment(),
                                  .cancellation = cancellation};
      },
      {.begin = [](const NcclTicket& /*ticket*/,
                   absl::Span<const NcclComm> /*comms*/)
           -> absl::StatusOr<std::vector<NcclPart>> {
         return absl::InternalError("wanted: no communicator without rank 1");
       },
       .launched = calls.Add("the communicator")});
  absl::Status status = CheckAbort(machine, calls, [&](absl::Status reason) {
    group->Break(std::move(reason));
  });
  if (!status.ok()) return status;
  const auto tasks = SuiteTasks::Create(machine, 1, nccl);
  if (!tasks.ok()) return tasks.status();
  return CheckNextGeneration(**tasks, /*step=*/1);
}

// Rank 1 takes part in the first step and not in the second.
absl::Status CheckLaunch(SuiteMachine& machine,
                         const std::shared_ptr<NcclRuntime>& nccl) {
  const auto made = SuiteTasks::Create(machine, 2, nccl);
  if (!made.ok()) return made.status();
  SuiteTasks& tasks = **made;
  absl::Status status = tasks.CheckSums(/*step=*/1);
  if (!status.ok()) return During("before the abort", status);
  PendingCalls calls;
  tasks.Call(0, /*step=*/2, &calls);
  // What NCCL has on the stream by then hangs too, and the abort lets it go.
  status = WaitAWhile(machine);
  if (!status.ok()) return status;
  machine.runtime()
      .CallHost(calls.Add("the stream of NCCL"), tasks.device(0).nccl_stream())
      .IgnoreError();  // The callback has it.
  status = CheckAbort(machine, calls, [&](absl::Status reason) {
    tasks.executor(0, /*step=*/2)->StartAbort(std::move(reason));
  });
  if (!status.ok()) return status;
  tasks.EndGroup(absl::AbortedError("it is formed again"));
  return CheckNextGeneration(tasks, /*step=*/3);
}

}  // namespace

std::vector<Check> AbortChecks(const std::shared_ptr<NcclRuntime>& nccl,
                               int num_gpus) {
  std::vector<Check> checks = {
      {.name = "aborts: a communicator of NCCL that lacks a rank",
       .run = [nccl](SuiteMachine& machine) {
         return CheckInit(machine, nccl);
       }}};
  if (num_gpus < 2) return checks;
  checks.push_back({.name = "aborts: an NcclReduce that lacks a rank",
                    .run = [nccl](SuiteMachine& machine) {
                      return CheckLaunch(machine, nccl);
                    }});
  return checks;
}

}  // namespace tutti
