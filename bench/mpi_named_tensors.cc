// Reductions of named tensors among the processes of one job:
//
//   mpirun -n N mpi_named_tensors
//
// - All-reduces of 4 bytes, one after the other; the main thread requests each
//   one and waits for it. Compares new names, a known name, and, for reference,
//   an unnamed collective called on all. Alternates between the three; reports
//   the largest of the processes' medians. Then repeats the known name, with
//   20 ms between two calls.
// - 1,000 tensors of 4 KiB, requested at once, fused and one by one: medians
//   over alternating rounds, of the slowest process.
// - Share of a processor that a process uses without any request, and while
//   one process waits for a tensor that the others request only later.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/processor_seconds.h"
#include "bench/run_mpi_task.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/mpi_transport.h"
#include "tutti/named_tensors.h"
#include "tutti/reduction.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

constexpr int kNumRounds = 7;
constexpr int kNumCalls = 300;  // Of each kind, in each round.
constexpr int kNumTensors = 1000;
constexpr int64_t kTensorBytes = 4096;
constexpr int kNumPasses = 5;  // Over all tensors, in each round.
constexpr int kNumRareCalls = 200;
constexpr absl::Duration kBetweenRare = absl::Milliseconds(20);
constexpr absl::Duration kIdle = absl::Seconds(5);

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

// Time that `call` takes, in seconds. Stores the first error in `status`.
double Time(const std::function<absl::Status()>& call, absl::Status* status) {
  const auto begin = std::chrono::steady_clock::now();
  status->Update(call());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

// State of one process that has joined the others.
class NamedTensors {
 public:
  explicit NamedTensors(ClusterRuntime* runtime)
      : runtime_(runtime), coordinator_(runtime->coordinator()) {
    small_ = Zeros(1);
    direct_ = Zeros(1);
    auto request = std::make_shared<CollectiveRequest>();
    request->group_size = size();
    request->rank = rank();
    request->op = AllReduce();
    request->shape = direct_.shape();
    request_ = std::move(request);
  }

  int rank() const { return runtime_->cluster().this_task; }
  int size() const { return runtime_->cluster().num_tasks(); }

  // Replaces each value by the largest one of all processes.
  absl::Status TakeGreatest(std::vector<double>* values) {
    auto all =
        *Tensor::Wrap(DType::kFloat64,
                      TensorShape::Vector(static_cast<int64_t>(values->size())),
                      values->data());
    return Request("greatest", all, MergeOp(ReductionKind::kMax));
  }

  // Median (p50) times under new names, under a known name, and without a name.
  absl::Status TimeOne(std::vector<double>* medians) {
    std::vector<double> fresh, known, called;
    absl::Status status;
    for (int round = 0; round <= kNumRounds && status.ok(); ++round) {
      std::vector<double> unused;
      const bool counts = round > 0;  // Otherwise a warm-up.
      TimeCalls(
          [&] { return Request(absl::StrCat("new ", num_names_++), small_); },
          counts ? &fresh : &unused, &status);
      TimeCalls([&] { return Request("known", small_); },
                counts ? &known : &unused, &status);
      TimeCalls([&] { return Call(); }, counts ? &called : &unused, &status);
    }
    if (!status.ok()) return status;
    *medians = {Median(fresh), Median(known), Median(called)};
    return TakeGreatest(medians);
  }

  // Median time of calls after pauses, including the wait for other processes.
  absl::Status TimeRare(Clock& clock, double* median) {
    std::vector<double> times;
    absl::Status status;
    for (int i = 0; i < kNumRareCalls && status.ok(); ++i) {
      Pause(clock, kBetweenRare);
      times.push_back(Time([&] { return Request("known", small_); }, &status));
    }
    if (!status.ok()) return status;
    std::vector<double> greatest = {Median(times)};
    status = TakeGreatest(&greatest);
    *median = greatest[0];
    return status;
  }

  // Median time of a pass over all tensors.
  absl::Status TimeMany(double* seconds) {
    std::vector<Tensor> tensors;
    for (int i = 0; i < kNumTensors; ++i) {
      tensors.push_back(Zeros(kTensorBytes / 4));
    }
    std::vector<double> times;
    absl::Status status;
    for (int pass = 0; pass <= kNumPasses && status.ok(); ++pass) {
      const double time = Time([&] { return RequestAll(tensors); }, &status);
      if (pass > 0) times.push_back(time);
    }
    if (!status.ok()) return status;
    std::vector<double> greatest = {Median(times)};
    status = TakeGreatest(&greatest);
    *seconds = greatest[0];
    return status;
  }

  // Shares of a processor used while idle and while process 0 waits.
  absl::Status MeasureIdle(Clock& clock, std::vector<double>* shares) {
    *shares = {IdleShare(clock)};
    absl::Status late;
    BlockingCounter ended(1);
    const auto reduce = [&] {
      coordinator_.AllReduce(
          {.name = "late", .input = small_, .output = &small_},
          [&](absl::Status status) {
            late = std::move(status);
            ended.DecrementCount();
          });
    };
    if (rank() == 0) reduce();
    shares->push_back(IdleShare(clock));
    if (rank() != 0) reduce();
    ended.Wait();
    if (!late.ok()) return late;
    return TakeGreatest(shares);
  }

 private:
  static Tensor Zeros(int64_t count) {
    Tensor tensor =
        *Tensor::Allocate(DType::kFloat32, TensorShape::Vector(count));
    std::fill_n(tensor.mutable_data(), tensor.size_bytes(), std::byte{0});
    return tensor;
  }

  absl::Status Request(std::string name, Tensor& tensor,
                       MergeOp op = MergeOp()) {
    return Await([&](StatusCallback done) {
      coordinator_.AllReduce({.name = std::move(name),
                              .input = tensor,
                              .output = &tensor,
                              .merge_op = std::move(op)},
                             std::move(done));
    });
  }

  absl::Status RequestAll(std::vector<Tensor>& tensors) {
    Mutex mutex;
    absl::Status first;
    BlockingCounter left(static_cast<int>(tensors.size()));
    for (size_t i = 0; i < tensors.size(); ++i) {
      coordinator_.AllReduce({.name = absl::StrCat("layer ", i),
                              .input = tensors[i],
                              .output = &tensors[i]},
                             [&](const absl::Status& status) {
                               {
                                 MutexLock lock(&mutex);
                                 first.Update(status);
                               }
                               left.DecrementCount();
                             });
    }
    left.Wait();
    return first;
  }

  absl::Status Call() {
    if (executor_ == nullptr) {
      executor_ = runtime_->manager().FindOrCreate(/*step_id=*/1);
    }
    return Await([&](StatusCallback done) {
      executor_->ExecuteAsync({.device = runtime_->devices()[0],
                               .request = request_,
                               .input = direct_,
                               .output = &direct_},
                              std::move(done));
    });
  }

  static void TimeCalls(const std::function<absl::Status()>& call,
                        std::vector<double>* times, absl::Status* status) {
    for (int i = 0; i < kNumCalls && status->ok(); ++i) {
      times->push_back(Time(call, status));
    }
  }

  static void Pause(Clock& clock, absl::Duration duration) {
    BlockingCounter over(1);
    clock.CallAt(clock.Now() + duration, [&over] { over.DecrementCount(); });
    over.Wait();
  }

  static double IdleShare(Clock& clock) {
    const double before = ProcessorSeconds();
    const absl::Time begin = clock.Now();
    Pause(clock, kIdle);
    return (ProcessorSeconds() - before) /
           absl::ToDoubleSeconds(clock.Now() - begin);
  }

  ClusterRuntime* const runtime_;
  Coordinator& coordinator_;
  std::shared_ptr<CollectiveExecutor> executor_;
  std::shared_ptr<const CollectiveRequest> request_;
  Tensor small_;
  Tensor direct_;
  int num_names_ = 0;
};

class Measurement {
 public:
  Measurement(MpiRuntime* mpi, const Environment& environment)
      : mpi_(mpi), environment_(environment) {}

  absl::Status Run() {
    absl::Status status = RunMpiTask(
        mpi_, environment_, {},
        [&](ClusterRuntime* runtime) { return MeasureOne(runtime); });
    std::vector<double> fused, alone, ratios;
    for (int round = 0; round <= kNumRounds && status.ok(); ++round) {
      double together = 0, apart = 0;
      status.Update(TimeMany({}, &together));
      status.Update(TimeMany({.fusion_bytes = 0}, &apart));
      if (round == 0) continue;  // To warm up.
      fused.push_back(together);
      alone.push_back(apart);
      ratios.push_back(apart / together);
    }
    if (!status.ok() || *mpi_->rank() != 0) return status;
    std::printf(
        "%d of %d bytes [ms]: fused %.1f, one by one %.1f, ratio %.1f\n",
        kNumTensors, static_cast<int>(kTensorBytes), 1e3 * Median(fused),
        1e3 * Median(alone), Median(ratios));
    std::fflush(stdout);
    return absl::OkStatus();
  }

 private:
  absl::Status MeasureOne(ClusterRuntime* runtime) {
    NamedTensors tensors(runtime);
    std::vector<double> medians, shares;
    double rare = 0;
    absl::Status status = tensors.TimeOne(&medians);
    if (status.ok()) status = tensors.TimeRare(*environment_.clock, &rare);
    if (status.ok()) status = tensors.MeasureIdle(*environment_.clock, &shares);
    if (!status.ok() || tensors.rank() != 0) return status;
    std::printf(
        "%d processes, named tensors\n"
        "4 bytes, p50 [us]: new name %.1f, known name %.1f, no name %.1f, "
        "known name after 20 ms %.1f\n"
        "of a processor [%%]: idle %.2f, one waits %.2f\n",
        tensors.size(), 1e6 * medians[0], 1e6 * medians[1], 1e6 * medians[2],
        1e6 * rare, 100 * shares[0], 100 * shares[1]);
    std::fflush(stdout);
    return absl::OkStatus();
  }

  absl::Status TimeMany(const CoordinatorSettings& settings, double* seconds) {
    return RunMpiTask(mpi_, environment_, settings,
                      [&](ClusterRuntime* runtime) {
                        return NamedTensors(runtime).TimeMany(seconds);
                      });
  }

  MpiRuntime* const mpi_;
  const Environment& environment_;
};

absl::Status RunMeasurement() {
  const DefaultEnvironment environment;
  MpiRuntime mpi({.environment = environment.get()});
  RETURN_IF_ERROR(mpi.Start());
  return Measurement(&mpi, environment.get()).Run();
}

}  // namespace
}  // namespace tutti

int main() {
  const absl::Status status = tutti::RunMeasurement();
  if (!status.ok()) std::cerr << "mpi_named_tensors: " << status << '\n';
  return status.ok() ? 0 : 1;
}
