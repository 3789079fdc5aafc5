#include "tools/cluster_party.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/blocking_counter.h"
#include "framework/collective_request.h"
#include "framework/tensor.h"

namespace tutti {
namespace {

// What the tasks say to each other between collectives runs among their first
// devices, in a group and a step of its own.
constexpr GroupKey kGroup = GroupKey{1} << 62;
constexpr int64_t kStep = int64_t{1} << 62;

// Instances of it: one for each length of numbers, and one for each task that
// may have an error to tell.
constexpr InstanceKey kBarrier = 0;
constexpr InstanceKey kErrors = 1;
constexpr InstanceKey kNumbers = InstanceKey{1} << 32;

// How much of an error's message the other tasks get.
constexpr int64_t kErrorBytes = 2048;

// How long the others may take to end once this task is done: with its part of
// the last collective, or with an error of which they hear too.
constexpr absl::Duration kLeaveTimeout = absl::Seconds(30);
constexpr absl::Duration kFailedTimeout = absl::Seconds(2);

class ClusterParty : public Party {
 public:
  ClusterParty(const Environment& environment,
               std::unique_ptr<ClusterRuntime> runtime)
      : environment_(environment), runtime_(std::move(runtime)) {}

  int num_ranks() const override { return num_tasks() * num_local(); }
  int first_rank() const override { return this_task() * num_local(); }
  const std::vector<Device*>& devices() const override {
    return runtime_->devices();
  }
  CollectiveExecutorMgr& manager() override { return runtime_->manager(); }
  bool reports() const override { return this_task() == 0; }

  absl::Status Align() override {
    return Run(Request(kBarrier, Barrier{}), Tensor(), nullptr);
  }

  absl::Status Agree(const absl::Status& mine) override {
    int64_t first_failed = mine.ok() ? num_tasks() : this_task();
    absl::Status status = Combine(ReductionKind::kMin, {&first_failed, 1});
    if (status.ok() && first_failed < num_tasks()) {
      status = TellError(static_cast<int>(first_failed), mine);
    }
    return mine.ok() ? status : mine;
  }

  absl::Status Combine(ReductionKind kind,
                       absl::Span<int64_t> numbers) override {
    const auto count = static_cast<int64_t>(numbers.size());
    CollectiveRequest request = Request(
        kNumbers + count * 16 + static_cast<int64_t>(kind), AllReduce{});
    request.dtype = DType::kInt64;
    request.shape = TensorShape::Vector(count);
    request.merge_op = kind;
    auto tensor = Tensor::Wrap(request.dtype, request.shape, numbers.data());
    if (!tensor.ok()) return tensor.status();
    return Run(std::move(request), *tensor, &*tensor);
  }

  absl::Status Leave(const absl::Status& outcome) override {
    BlockingCounter left(1);
    absl::Status status;
    runtime_->Leave(environment_.clock->Now() +
                        (outcome.ok() ? kLeaveTimeout : kFailedTimeout),
                    [&](absl::Status ended) {
                      status = std::move(ended);
                      left.DecrementCount();
                    });
    left.Wait();
    return outcome.ok() ? status : outcome;
  }

 private:
  int this_task() const { return runtime_->cluster().this_task; }
  int num_tasks() const { return runtime_->cluster().num_tasks(); }

  CollectiveRequest Request(InstanceKey instance, CollectiveOp op) const {
    CollectiveRequest request;
    request.group_key = kGroup;
    request.group_size = num_tasks();
    request.rank = this_task();
    request.instance_key = instance;
    request.op = std::move(op);
    return request;
  }

  // The error of `task`, which is `mine` there.
  absl::Status TellError(int task, const absl::Status& mine) {
    std::string text(kErrorBytes, '\0');
    if (task == this_task()) {
      text[0] = static_cast<char>(mine.code());
      mine.message().substr(0, kErrorBytes - 1).copy(&text[1], kErrorBytes - 1);
    }
    CollectiveRequest request =
        Request(kErrors + task, Broadcast{.is_source = task == this_task()});
    request.dtype = DType::kUint8;
    request.shape = TensorShape::Vector(kErrorBytes);
    auto tensor = Tensor::Wrap(request.dtype, request.shape, text.data());
    if (!tensor.ok()) return tensor.status();
    const absl::Status status = Run(
        std::move(request), task == this_task() ? *tensor : Tensor(), &*tensor);
    if (!status.ok()) return status;
    return absl::Status(
        static_cast<absl::StatusCode>(text[0]),
        absl::StrCat(runtime_->cluster().Label(task), ": ", text.c_str() + 1));
  }

  absl::Status Run(CollectiveRequest request, Tensor input, Tensor* output) {
    BlockingCounter done(1);
    absl::Status result;
    manager().FindOrCreate(kStep)->ExecuteAsync(
        {.device = devices()[0],
         .request =
             std::make_shared<const CollectiveRequest>(std::move(request)),
         .input = std::move(input),
         .output = output},
        [&](absl::Status status) {
          result = std::move(status);
          done.DecrementCount();
        });
    done.Wait();
    return result;
  }

  const Environment environment_;
  const std::unique_ptr<ClusterRuntime> runtime_;
};

}  // namespace

std::unique_ptr<Party> MakeClusterParty(
    const Environment& environment, std::unique_ptr<ClusterRuntime> runtime) {
  return std::make_unique<ClusterParty>(environment, std::move(runtime));
}

}  // namespace tutti
