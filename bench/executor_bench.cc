// Measures operations per second, and the cost of a step of the engine, without
// threads: all work runs on the calling thread.

#include <benchmark/benchmark.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/mutex.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/local_runtime.h"

namespace tutti {
namespace {

// Counts scheduled work and drops it: shows that a benchmark schedules none.
class NoQueue : public WorkQueue {
 public:
  void Schedule(Work) override { ++num_scheduled_; }
  int num_workers() const override { return 1; }
  int num_scheduled() const { return num_scheduled_; }

 private:
  int num_scheduled_ = 0;
};

// Devices of this process, and the executor of their collectives.
struct Process {
  explicit Process(int num_devices)
      : group(*LocalGroup::Create(
            {&queue, environment.get().clock, environment.get().random}, 1,
            num_devices)),
        executor(group->manager().FindOrCreate(1)) {}

  NoQueue queue;
  DefaultEnvironment environment{1};
  std::unique_ptr<LocalGroup> group;
  std::shared_ptr<CollectiveExecutor> executor;
};

// All devices of the process, called in turn from one thread.
class Members {
 public:
  Members(Process& process, InstanceKey instance_key, int64_t num_elements,
          const std::string& name)
      : process_(process), outputs_(process.group->devices().size()) {
    CollectiveRequest request;
    request.group_key = 1;
    request.group_size = static_cast<int>(outputs_.size());
    request.instance_key = instance_key;
    request.op = AllReduce{};
    request.shape = TensorShape::Vector(num_elements);
    request.impl_details.implementation = name;
    request_ = std::make_shared<const CollectiveRequest>(request);
    for (Tensor& output : outputs_) {
      inputs_.push_back(*Tensor::Allocate(DType::kFloat32, request.shape));
      output = *Tensor::Allocate(DType::kFloat32, request.shape);
    }
  }

  // Prepares the collectives that RunPrepared() starts.
  void Prepare() {
    prepared_.resize(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      process_.executor->Prepare(
          {.device = process_.group->devices()[i],
           .request = request_,
           .input = inputs_[i],
           .output = &outputs_[i]},
          [this, i](auto prepared) { prepared_[i] = *std::move(prepared); });
    }
  }

  // Runs the all-reduce of Run(), prepared.
  bool RunPrepared() {
    size_t num_ok = 0;
    for (const auto& prepared : prepared_) {
      prepared->Start(
          [&num_ok](const absl::Status& status) { num_ok += status.ok(); });
    }
    return num_ok == prepared_.size() && process_.queue.num_scheduled() == 0;
  }

  // Runs one all-reduce on all members. Returns whether all ended with OK.
  bool Run() {
    size_t num_ok = 0;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      process_.executor->ExecuteAsync(
          {.device = process_.group->devices()[i],
           .request = request_,
           .input = inputs_[i],
           .output = &outputs_[i]},
          [&num_ok](const absl::Status& status) { num_ok += status.ok(); });
    }
    return num_ok == outputs_.size() && process_.queue.num_scheduled() == 0;
  }

 private:
  Process& process_;
  std::shared_ptr<const CollectiveRequest> request_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::vector<std::shared_ptr<PreparedCollective>> prepared_;
};

void Measure(benchmark::State& state, Members& members) {
  for (auto _ : state) {
    if (!members.Run()) return state.SkipWithError("an all-reduce failed");
  }
  state.SetItemsProcessed(state.iterations());
}

// items_per_second: all-reduces per second on one calling thread.
void BM_AllReduce(benchmark::State& state, const std::string& name) {
  Process process(static_cast<int>(state.range(0)));
  Members members(process, 1, state.range(1) / 4, name);
  Measure(state, members);
}

// Runs the same with prepared all-reduces.
void BM_PreparedAllReduce(benchmark::State& state, const std::string& name) {
  Process process(static_cast<int>(state.range(0)));
  Members members(process, 1, state.range(1) / 4, name);
  members.Prepare();
  for (auto _ : state) {
    if (!members.RunPrepared()) {
      return state.SkipWithError("an all-reduce failed");
    }
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["time_per_member"] = benchmark::Counter(
      static_cast<double>(state.range(0) * state.iterations()),
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// 1,000 all-reduces of 4 KiB among 8 devices, one after the other, called or
// prepared. Neither their lookups nor their bytes stay in the caches.
void BM_ManyAllReduces(benchmark::State& state, bool is_prepared) {
  constexpr int kMany = 1000;
  constexpr int64_t kNumElements = 1024;
  Process process(/*num_devices=*/8);
  std::vector<std::unique_ptr<Members>> all;
  for (int i = 0; i < kMany; ++i) {
    all.push_back(
        std::make_unique<Members>(process, i + 1, kNumElements, "LocalReduce"));
    if (is_prepared) all.back()->Prepare();
  }
  for (auto _ : state) {
    for (const auto& members : all) {
      if (is_prepared ? !members->RunPrepared() : !members->Run()) {
        return state.SkipWithError("an all-reduce failed");
      }
    }
  }
  state.SetBytesProcessed(state.iterations() * kMany * 8 * kNumElements * 4);
}
BENCHMARK_CAPTURE(BM_ManyAllReduces, called, false);
BENCHMARK_CAPTURE(BM_ManyAllReduces, prepared, true);

// Cost of a mutex, for comparison in the same run.
void BM_LockAndUnlock(benchmark::State& state) {
  Mutex mutex;
  for (auto _ : state) {
    MutexLock lock(&mutex);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_LockAndUnlock);

void BM_AtomicIncrement(benchmark::State& state) {
  std::atomic<int64_t> count{0};
  for (auto _ : state) benchmark::DoNotOptimize(count.fetch_add(1));
}
BENCHMARK(BM_AtomicIncrement);

// A ring with one element per chunk. Each member makes 2(n-1) sends and as many
// receives, half of them with a reduction.
void BM_RingStep(benchmark::State& state) {
  const auto num_devices = static_cast<int>(state.range(0));
  Process process(num_devices);
  Members members(process, 1, num_devices, "RingReduce");
  Measure(state, members);
  const double steps = 4.0 * (num_devices - 1) * num_devices;
  state.counters["steps"] =
      benchmark::Counter(steps * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
  state.counters["time_per_step"] = benchmark::Counter(
      steps * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void SmallSizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"devices", "bytes"})->ArgsProduct({{2, 8}, {4, 1024}});
}
BENCHMARK_CAPTURE(BM_AllReduce, local, "LocalReduce")->Apply(SmallSizes);
BENCHMARK_CAPTURE(BM_AllReduce, tree, "TreeReduce")->Apply(SmallSizes);
BENCHMARK_CAPTURE(BM_AllReduce, ring, "RingReduce")->Apply(SmallSizes);
BENCHMARK_CAPTURE(BM_PreparedAllReduce, local, "LocalReduce")
    ->Apply(SmallSizes);
BENCHMARK_CAPTURE(BM_PreparedAllReduce, tree, "TreeReduce")->Apply(SmallSizes);
BENCHMARK_CAPTURE(BM_PreparedAllReduce, ring, "RingReduce")->Apply(SmallSizes);
BENCHMARK_CAPTURE(BM_PreparedAllReduce, doubling, "RecursiveDoublingReduce")
    ->Apply(SmallSizes);
BENCHMARK(BM_RingStep)->ArgName("devices")->Arg(8)->Arg(64);

}  // namespace
}  // namespace tutti
