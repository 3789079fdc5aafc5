// Operations per second, and what a step of the engine costs, without threads:
// everything runs where it is called.

#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "framework/default_environment.h"
#include "framework/environment.h"
#include "resolvers/local_group.h"

namespace tutti {
namespace {

// Refuses work: shows that a benchmark hands none over.
class NoQueue : public WorkQueue {
 public:
  void Schedule(Work) override { ++num_scheduled_; }
  int num_scheduled() const { return num_scheduled_; }

 private:
  int num_scheduled_ = 0;
};

// All devices of this process, called in turn from one thread.
class Members {
 public:
  Members(int num_devices, int64_t num_elements, const std::string& name)
      : group_(*LocalGroup::Create(
            {&queue_, default_.get().clock, default_.get().random}, 1,
            num_devices)),
        outputs_(num_devices) {
    CollectiveRequest request;
    request.group_key = 1;
    request.group_size = num_devices;
    request.instance_key = 1;
    request.op = AllReduce{};
    request.shape = TensorShape::Vector(num_elements);
    request.impl_details.implementation = name;
    request_ = std::make_shared<const CollectiveRequest>(request);
    for (int i = 0; i < num_devices; ++i) {
      inputs_.push_back(*Tensor::Allocate(DType::kFloat32, request.shape));
      outputs_[i] = *Tensor::Allocate(DType::kFloat32, request.shape);
    }
    executor_ = group_->manager().FindOrCreate(1);
  }

  // One all-reduce of all; true if every member ended with OK.
  bool Run() {
    size_t num_ok = 0;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      executor_->ExecuteAsync(
          {.device = group_->devices()[i],
           .request = request_,
           .input = inputs_[i],
           .output = &outputs_[i]},
          [&num_ok](const absl::Status& status) { num_ok += status.ok(); });
    }
    return num_ok == outputs_.size() && queue_.num_scheduled() == 0;
  }

 private:
  NoQueue queue_;
  DefaultEnvironment default_{1};
  std::unique_ptr<LocalGroup> group_;
  std::shared_ptr<CollectiveExecutor> executor_;
  std::shared_ptr<const CollectiveRequest> request_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
};

void Measure(benchmark::State& state, Members& members) {
  for (auto _ : state) {
    if (!members.Run()) return state.SkipWithError("an all-reduce failed");
  }
  state.SetItemsProcessed(state.iterations());
}

// items_per_second: all-reduces of 4 bytes per second, one calling thread.
void BM_AllReduce4Bytes(benchmark::State& state, const std::string& name) {
  Members members(static_cast<int>(state.range(0)), 1, name);
  Measure(state, members);
}

// A ring of one element per chunk: 2(n-1) sends and as many receives, half of
// them with a reduction, per member.
void BM_RingStep(benchmark::State& state) {
  const auto num_devices = static_cast<int>(state.range(0));
  Members members(num_devices, num_devices, "RingReduce");
  Measure(state, members);
  const double steps = 4.0 * (num_devices - 1) * num_devices;
  state.counters["steps"] =
      benchmark::Counter(steps * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
  state.counters["time_per_step"] = benchmark::Counter(
      steps * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK_CAPTURE(BM_AllReduce4Bytes, local, "LocalReduce")
    ->ArgName("devices")
    ->Arg(2)
    ->Arg(8);
BENCHMARK_CAPTURE(BM_AllReduce4Bytes, tree, "TreeReduce")
    ->ArgName("devices")
    ->Arg(2)
    ->Arg(8);
BENCHMARK_CAPTURE(BM_AllReduce4Bytes, ring, "RingReduce")
    ->ArgName("devices")
    ->Arg(2)
    ->Arg(8);
BENCHMARK(BM_RingStep)->ArgName("devices")->Arg(8)->Arg(64);

}  // namespace
}  // namespace tutti
