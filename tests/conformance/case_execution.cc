#include "tests/conformance/case_execution.h"

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "tests/conformance/member_buffers.h"
#include "tutti/environment.h"
#include "tutti/executor.h"

namespace tutti::conformance {

// Calls keep it alive, even those that never end.
struct CaseExecution::Member {
  Member(const Case& c, int rank,
         std::shared_ptr<const CollectiveRequest> member_request,
         std::shared_ptr<const Expectation> expectation)
      : rank(rank),
        device_index(DeviceIndex(c, rank)),
        factor(FactorOf(c, rank)),
        request(std::move(member_request)),
        expected(std::move(expectation)),
        buffers(c, rank, expected->input(rank)) {}

  void OnDone(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu) {
    std::string wrong = buffers.CheckUntouched();
    if (wrong.empty() && status.ok()) {
      wrong = buffers.CheckOutput(expected->output(rank));
    }
    buffers.TakeBack();
    MutexLock lock(&mu);
    if (++num_ends > 1) return;
    end_status = status;
    finding = std::move(wrong);
  }

  std::string CheckEnd(const absl::Status& error) const
      ABSL_LOCKS_EXCLUDED(mu) {
    MutexLock lock(&mu);
    if (num_ends != 1) return absl::StrCat("`done` ran ", num_ends, " times");
    if (!end_status.ok() && end_status != error) {
      return absl::StrCat("ended with ", end_status.ToString(), ", wanted ",
                          error.ToString());
    }
    return finding.empty() ? buffers.CheckTakenBack() : finding;
  }

  // Without limits unless there are some: that is another way to start.
  static void PrepareAndStart(CollectiveExecutor& executor, CollectiveArgs args,
                              const PreparedCollective::Limits& limits,
                              const std::shared_ptr<Member>& member) {
    executor.Prepare(std::move(args), [limits, member](auto prepared) {
      if (!prepared.ok()) return member->OnDone(prepared.status());
      const auto done = [member](const absl::Status& status) {
        member->OnDone(status);
      };
      if (limits.cancellation == nullptr &&
          limits.deadline == absl::InfiniteFuture()) {
        return (*prepared)->Start(done);
      }
      (*prepared)->Start(limits, done);
    });
  }

  const int rank;
  const int device_index;
  const std::optional<double> factor;
  const std::shared_ptr<const CollectiveRequest> request;
  const std::shared_ptr<const Expectation> expected;
  MemberBuffers buffers;  // The collective's until its end, then OnDone()'s.
  mutable Mutex mu;
  int num_ends ABSL_GUARDED_BY(mu) = 0;
  absl::Status end_status ABSL_GUARDED_BY(mu);
  std::string finding ABSL_GUARDED_BY(mu);
};

CaseExecution::CaseExecution(
    const Case& c,
    std::vector<std::shared_ptr<const CollectiveRequest>> requests,
    std::shared_ptr<const Expectation> expected) {
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    members_.push_back(
        std::make_shared<Member>(c, rank, std::move(requests[rank]), expected));
  }
}

void CaseExecution::CallAll(TestGroup& group, const CallOptions& options) {
  for (const auto& member : members_) Call(group, member->rank, options);
}

void CaseExecution::Call(TestGroup& group, int rank,
                         const CallOptions& options) {
  const auto& member = members_[rank];
  CollectiveArgs args{.device = group.device(member->device_index),
                      .request = member->request,
                      .input = member->buffers.input(),
                      .output = member->buffers.output(),
                      .input_factor = member->factor,
                      .deadline = options.deadline,
                      .cancellation = options.cancellation};
  WorkQueue* const queue = group.driver().environment().queue;
  const auto executor = group.step(options.step_id);
  if (options.is_prepared) {
    PreparedCollective::Limits limits{options.deadline, options.cancellation};
    return queue->Schedule(
        [executor, args = std::move(args), limits, member]() mutable {
          Member::PrepareAndStart(*executor, std::move(args), limits, member);
        });
  }
  queue->Schedule([executor, args = std::move(args), member]() mutable {
    executor->ExecuteAsync(std::move(args), [member](absl::Status status) {
      member->OnDone(status);
    });
  });
}

int CaseExecution::num_ended() const {
  int num_ended = 0;
  for (const auto& member : members_) {
    MutexLock lock(&member->mu);
    num_ended += member->num_ends;
  }
  return num_ended;
}

int CaseExecution::num_failed() const {
  int num_failed = 0;
  for (const auto& member : members_) {
    MutexLock lock(&member->mu);
    if (!member->end_status.ok()) ++num_failed;
  }
  return num_failed;
}

absl::Status CaseExecution::status(int rank) const {
  MutexLock lock(&members_[rank]->mu);
  return members_[rank]->end_status;
}

std::string CaseExecution::CheckEnds(const absl::Status& error) const {
  for (const auto& member : members_) {
    const std::string wrong = member->CheckEnd(error);
    if (!wrong.empty()) return absl::StrCat("rank ", member->rank, ": ", wrong);
  }
  return "";
}

std::string CaseExecution::CheckFailure(const absl::Status& error) const {
  std::string wrong = CheckEnds(error);
  if (wrong.empty() && num_failed() == 0) {
    wrong = absl::StrCat("no call failed; wanted ", error.ToString());
  }
  return wrong;
}

}  // namespace tutti::conformance
