#include "bench/member_calls.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {

void Round::End(absl::Status status) {
  if (!status.ok() && !failed_.exchange(true)) error_ = std::move(status);
  if (left_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  end_ = std::chrono::steady_clock::now();
  ended_.store(true, std::memory_order_release);
  all_ended_.DecrementCount();
}

absl::Status Round::Wait() {
  all_ended_.Wait();
  return error_;
}

absl::StatusOr<std::unique_ptr<MemberCalls>> MemberCalls::Create(
    const Environment& environment, int num_devices) {
  auto calls = absl::WrapUnique(new MemberCalls(environment.queue));
  Environment counting = environment;
  counting.queue = &calls->queue_;
  ASSIGN_OR_RETURN(calls->group_,
                   LocalGroup::Create(counting, /*num_tasks=*/1, num_devices));
  calls->executor_ = calls->group_->manager().FindOrCreate(/*step_id=*/1);
  return calls;
}

std::shared_ptr<const CollectiveRequest> MemberCalls::RequestOf(
    const Workload& workload, int number) {
  auto& known = requests_[absl::StrCat(Name(workload.dtype), " ",
                                       workload.count, " ", number)];
  if (known == nullptr) {
    CollectiveRequest request = tutti::RequestOf(workload, /*rank=*/-1);
    request.instance_key = static_cast<InstanceKey>(requests_.size());
    known = std::make_shared<const CollectiveRequest>(std::move(request));
  }
  return known;
}

void MemberCalls::Make(const std::shared_ptr<const CollectiveRequest>& request,
                       std::vector<RankBuffers>* buffers, Ranks ranks,
                       Round* round) {
  for (int rank = ranks.begin; rank < ranks.end; ++rank) {
    RankBuffers& own = (*buffers)[static_cast<size_t>(rank)];
    executor_->ExecuteAsync(
        {.device = group_->devices()[static_cast<size_t>(rank)],
         .request = request,
         .input = own.input,
         .output = &own.output},
        [round](absl::Status status) { round->End(std::move(status)); });
  }
}

void MemberCalls::MakeTogether(
    const std::shared_ptr<const CollectiveRequest>& request,
    const std::vector<std::shared_ptr<const SegmentList>>& segments,
    Round* round) {
  for (size_t rank = 0; rank < segments.size(); ++rank) {
    executor_->ExecuteAsync(
        {.device = group_->devices()[rank],
         .request = request,
         .segments = segments[rank]},
        [round](absl::Status status) { round->End(std::move(status)); });
  }
}

absl::StatusOr<std::vector<std::shared_ptr<PreparedCollective>>>
MemberCalls::Prepare(const std::shared_ptr<const CollectiveRequest>& request,
                     const std::vector<RankBuffers>& buffers,
                     bool allow_shared_output) {
  std::vector<std::shared_ptr<PreparedCollective>> prepared(buffers.size());
  std::vector<Tensor> outputs(buffers.size());
  Round round(static_cast<int>(buffers.size()));
  for (size_t rank = 0; rank < buffers.size(); ++rank) {
    executor_->Prepare({.device = group_->devices()[rank],
                        .request = request,
                        .input = buffers[rank].input,
                        .output = &outputs[rank],
                        .allow_shared_output = allow_shared_output},
                       [&round, &own = prepared[rank]](auto made) {
                         absl::Status status = made.status();
                         if (made.ok()) own = *std::move(made);
                         round.End(std::move(status));
                       });
  }
  RETURN_IF_ERROR(round.Wait());
  return prepared;
}

}  // namespace tutti
