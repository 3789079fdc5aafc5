#include "tests/processes/matrix.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/base/status_macros.h"
#include "tools/request/collective_spec.h"
#include "tools/request/test_data.h"
#include "tools/request/workload.h"
#include "tutti/collective.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Elements of a rank, or of a block: odd.
constexpr int64_t kElements[] = {7, 1001, 143'143};
constexpr int64_t kMaxBytes = 1 << 20;

// Elements of float32 that take several messages of a transfer.
constexpr int64_t kManyElements = (9 << 20) / 4 + 1;

constexpr int64_t kStep = 1;
constexpr int kRounds = 2;
constexpr absl::Duration kLimit = absl::Seconds(60);

struct Reduction {
  DType dtype;
  std::string name;
};

std::vector<Reduction> AllReductions() {
  std::vector<Reduction> all;
  for (const DType dtype : kAllDTypes) {
    if (CheckSupported(ReductionKind::kSum, dtype).ok()) {
      all.push_back({dtype, "avg"});
    }
    for (const ReductionKind kind : kAllReductionKinds) {
      if (!CheckSupported(kind, dtype).ok()) continue;
      all.push_back({dtype, std::string(Name(kind))});
    }
  }
  return all;
}

// Returns a step from one reduction to the next, coprime to their number, so
// that each takes its turn.
size_t StrideFor(size_t num_reductions) {
  size_t stride = 11;
  while (std::gcd(stride, num_reductions) != 1) ++stride;
  return stride;
}

class Matrix {
 public:
  Matrix(ClusterRuntime& runtime, const Environment& environment)
      : runtime_(runtime),
        clock_(*environment.clock),
        num_tasks_(runtime.cluster().num_tasks()),
        num_devices_(static_cast<int>(runtime.devices().size())),
        first_rank_(runtime.cluster().this_task * num_devices_),
        turn_(static_cast<size_t>(num_ranks())) {}

  absl::Status Run() {
    for (const auto& [name, factory] : CollectiveRegistry::Global().List()) {
      const ImplementationTraits& traits = factory->traits();
      if (!CanServe(traits)) continue;
      for (const CollectiveType type : traits.collectives) {
        RETURN_IF_ERROR(RunSizes(name, type, traits.reduces_at_once));
      }
    }
    return absl::OkStatus();
  }

 private:
  int num_ranks() const { return num_tasks_ * num_devices_; }

  bool CanServe(const ImplementationTraits& traits) const {
    return traits.delegate.empty() &&
           (traits.device_types.empty() ||
            absl::c_linear_search(traits.device_types, "CPU")) &&
           (num_tasks_ == 1 || !traits.needs_one_process);
  }

  absl::Status RunSizes(const std::string& algorithm, CollectiveType type,
                        bool reduces_at_once) {
    ++turn_;
    CollectiveWords words = {.collective = std::string(Name(type))};
    Workload workload = {.dtype = kAllDTypes[turn_ % kAllDTypes.size()],
                         .group_size = num_ranks()};
    if (Reduces(type)) {
      // The next dtype, and another reduction.
      size_t next = turn_ * stride_;
      const auto is_mean = [&](const Reduction& reduction) {
        return reduction.name == "avg" && IsInteger(reduction.dtype);
      };
      while (!reduces_at_once &&
             is_mean(reductions_[next % reductions_.size()])) {
        ++next;
      }
      const Reduction& reduction = reductions_[next % reductions_.size()];
      workload.dtype = reduction.dtype;
      words.reduction = reduction.name;
      if (IsScan(type) && reduction.name == "avg") words.reduction = "sum";
    }
    ASSIGN_OR_RETURN(workload.spec, ParseCollectiveSpec(words));
    workload.spec.root = num_ranks() - 1;
    if (type == CollectiveType::kPermute) {
      // All elements change tasks.
      for (int rank = 0; rank < num_ranks(); ++rank) {
        workload.spec.permutation.push_back((rank + num_devices_) %
                                            num_ranks());
      }
    }
    if (type == CollectiveType::kBarrier) return Check(algorithm, workload);
    for (const int64_t elements : kElements) {
      workload.count = elements * (HasRankBlocks(type) ? num_ranks() : 1);
      if (BytesOf(workload) > kMaxBytes) break;
      RETURN_IF_ERROR(Check(algorithm, workload));
    }
    if (type != CollectiveType::kAllReduce || num_ranks() != 2) {
      return absl::OkStatus();
    }
    workload.dtype = DType::kFloat32;
    ASSIGN_OR_RETURN(workload.spec,
                     ParseCollectiveSpec({.collective = "all_reduce"}));
    workload.count = kManyElements;
    return Check(algorithm, workload);
  }

  // Runs executions of one instance.
  absl::Status Check(const std::string& algorithm, const Workload& workload) {
    ++instance_;
    const TestData data(workload, /*seed=*/static_cast<uint64_t>(instance_),
                        /*with_results=*/workload.count > 0);
    for (int round = 0; round < kRounds; ++round) {
      const absl::Status status = RunOnce(algorithm, workload, data);
      if (status.ok()) continue;
      return absl::Status(
          status.code(),
          absl::StrCat(algorithm, ", ", ToString(workload.spec), " of ",
                       workload.count, " ", Name(workload.dtype), " on ",
                       num_tasks_, "x", num_devices_, ": ", status.message()));
    }
    return absl::OkStatus();
  }

  absl::Status RunOnce(const std::string& algorithm, const Workload& workload,
                       const TestData& data) {
    const auto executor = runtime_.manager().FindOrCreate(kStep);
    std::vector<Tensor> outputs(num_devices_);
    std::vector<absl::Status> statuses(num_devices_);
    BlockingCounter ended(num_devices_);
    for (int i = 0; i < num_devices_; ++i) {
      const int rank = first_rank_ + i;
      CollectiveRequest request = RequestOf(workload, rank);
      request.instance_key = instance_;
      request.impl_details.implementation = algorithm;
      CollectiveArgs call = {
          .device = runtime_.devices()[i],
          .request = std::make_shared<const CollectiveRequest>(request),
          .deadline = clock_.Now() + kLimit};
      if (const int64_t count = InputElements(workload, rank); count > 0) {
        call.input =
            *Tensor::Allocate(workload.dtype, TensorShape::Vector(count));
        data.WriteInput(
            rank, call.input.mutable_data(),
            [](std::byte* into, const std::byte* from, size_t num_bytes) {
              std::memcpy(into, from, num_bytes);
            });
      }
      if (OutputElements(workload, rank) > 0) call.output = &outputs[i];
      executor->ExecuteAsync(std::move(call), [&, i](absl::Status status) {
        statuses[i] = std::move(status);
        ended.DecrementCount();
      });
    }
    ended.Wait();
    int64_t num_wrong = 0;
    for (int i = 0; i < num_devices_; ++i) {
      RETURN_IF_ERROR(statuses[i]);
      if (OutputElements(workload, first_rank_ + i) == 0) continue;
      num_wrong += data.CountWrong(
          first_rank_ + i, {outputs[i].data(), outputs[i].size_bytes()});
    }
    if (num_wrong == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(num_wrong, " elements are wrong"));
  }

  ClusterRuntime& runtime_;
  Clock& clock_;
  const int num_tasks_;
  const int num_devices_;  // Of each task.
  const int first_rank_;
  const std::vector<Reduction> reductions_ = AllReductions();
  const size_t stride_ = StrideFor(reductions_.size());
  size_t turn_;  // Chooses the dtype and the reduction; differs by shape.
  int64_t instance_ = 0;
};

}  // namespace

absl::Status RunMatrix(ClusterRuntime& runtime,
                       const Environment& environment) {
  return Matrix(runtime, environment).Run();
}

}  // namespace tutti
