// All-reduces over MPI beside MPI_Allreduce, in the processes of one job:
//
//   mpirun -n N mpi_processes
//
// All contenders take turns at each size in each round. The time of a call is
// the mean over a loop of calls, one after the other, on the slowest process.
// Figures are medians over the rounds. Ratios are medians of each round's ratio
// to MPI_Allreduce.
//
// "Iallreduce" is MPI_Iallreduce and MPI_Wait, on the kernel that MpiReduce
// passes to MPI, by the algorithm that MPI chooses. MpiReduce is prepared, and
// each run starts where the previous one ended: on MPI's thread, as for the
// other two. "Tutti" is called by the main thread, which waits for each call.

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "bench/run_mpi_task.h"
#include "framework/base/status_macros.h"
#include "remote/mpi/collectives/mpi_merge.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/mpi_transport.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

constexpr int kNumRounds = 7;
constexpr int64_t kMaxBytes = int64_t{64} << 20;

int NumCalls(int64_t num_bytes) {
  return static_cast<int>(
      std::clamp<int64_t>((int64_t{64} << 20) / num_bytes, 3, 500));
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

// Times of one contender, over the rounds.
struct Series {
  std::vector<double> seconds;
  std::vector<double> ratios;
};

// Starts a prepared collective again at each end of the previous run.
class Chain {
 public:
  explicit Chain(PreparedCollective* prepared) : prepared_(prepared) {}

  absl::Status Run(int num_calls) {
    num_left_ = num_calls;
    return Await([this](StatusCallback done) {
      done_ = std::move(done);
      Next(absl::OkStatus());
    });
  }

 private:
  void Next(absl::Status status) {
    if (!status.ok() || num_left_-- == 0) {
      return std::move(done_)(std::move(status));
    }
    prepared_->Start([this](absl::Status ended) { Next(std::move(ended)); });
  }

  PreparedCollective* const prepared_;
  int num_left_ = 0;
  StatusCallback done_;
};

class Comparison {
 public:
  Comparison(MpiRuntime* mpi, ClusterRuntime* runtime)
      : mpi_(mpi),
        runtime_(runtime),
        executor_(runtime->manager().FindOrCreate(/*step_id=*/1)) {}

  absl::Status Run() {
    if (is_first()) {
      std::printf("%d processes, %s\n%10s %12s %17s %17s %17s\n", size(),
                  mpi_->Describe()->substr(0, 15).c_str(), "bytes", "MPI [us]",
                  "Iallreduce, ratio", "MpiReduce, ratio", "Tutti, ratio");
    }
    RETURN_IF_ERROR(MeetAll());
    for (int64_t num_bytes = 4; num_bytes <= kMaxBytes; num_bytes *= 4) {
      RETURN_IF_ERROR(Compare(num_bytes));
    }
    return absl::OkStatus();
  }

 private:
  // Waits until all processes have joined: joining needs the other processes'
  // MPI threads, which comparisons occupy.
  absl::Status MeetAll() {
    CollectiveRequest request;
    request.group_size = size();
    request.rank = runtime_->cluster().this_task;
    request.op = AllReduce();
    request.shape = TensorShape::Vector(1);
    input_.assign(1, 1.0F);
    output_.assign(1, 0.0F);
    absl::Status status;
    TimeTutti(std::make_shared<const CollectiveRequest>(std::move(request)),
              /*num_calls=*/1, &status);
    return status;
  }

  int size() const { return runtime_->cluster().num_tasks(); }
  bool is_first() const { return runtime_->cluster().this_task == 0; }

  absl::Status Compare(int64_t num_bytes) {
    const auto count = static_cast<size_t>(num_bytes / 4);
    input_.assign(count, 1.0F);
    output_.assign(count, 0.0F);
    CollectiveRequest request;
    request.group_size = size();
    request.rank = runtime_->cluster().this_task;
    request.instance_key = num_bytes;
    request.op = AllReduce();
    request.shape = TensorShape::Vector(static_cast<int64_t>(count));
    const auto shared = std::make_shared<const CollectiveRequest>(request);
    request.impl_details.implementation = "MpiReduce";
    request.instance_key += kMaxBytes + 1;
    const auto delegated =
        std::make_shared<const CollectiveRequest>(std::move(request));
    std::vector<Series> all(4);
    for (int round = 0; round <= kNumRounds; ++round) {
      const int num_calls = NumCalls(num_bytes);
      absl::Status status;
      std::vector<double> seconds = {TimeMpi(num_calls),
                                     TimeIallreduce(num_calls)};
      seconds.push_back(TimeMpiReduce(delegated, num_calls, &status));
      if (!status.ok()) return status;
      seconds.push_back(TimeTutti(shared, num_calls, &status));
      if (!status.ok()) return status;
      OnMpiThread([&] {
        MPI_Allreduce(MPI_IN_PLACE, seconds.data(),
                      static_cast<int>(seconds.size()), MPI_DOUBLE, MPI_MAX,
                      MPI_COMM_WORLD);
      });
      if (round == 0) continue;  // To warm up.
      for (size_t i = 0; i < all.size(); ++i) {
        all[i].seconds.push_back(seconds[i]);
        all[i].ratios.push_back(seconds[i] / seconds[0]);
      }
    }
    if (is_first()) Print(num_bytes, all);
    return absl::OkStatus();
  }

  static void Print(int64_t num_bytes, const std::vector<Series>& all) {
    std::printf("%10lld %12.1f", static_cast<long long>(num_bytes),
                Median(all[0].seconds) * 1e6);
    for (size_t i = 1; i < all.size(); ++i) {
      std::printf(" %10.1f %6.2f", Median(all[i].seconds) * 1e6,
                  Median(all[i].ratios));
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  // Runs `work` on MPI's thread. All processes call this together, while none
  // is in a collective of Tutti.
  void OnMpiThread(const std::function<void()>& work) {
    BlockingCounter done(1);
    mpi_->engine().Post([&] {
      work();
      done.DecrementCount();
    });
    done.Wait();
  }

  double TimeMpi(int num_calls) {
    double seconds = 0;
    OnMpiThread([&] {
      const auto all_reduce = [&] {
        MPI_Allreduce(input_.data(), output_.data(),
                      static_cast<int>(input_.size()), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
      };
      all_reduce();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < num_calls; ++i) all_reduce();
      seconds = Since(begin) / num_calls;
      MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX,
                    MPI_COMM_WORLD);
    });
    return seconds;
  }

  double TimeIallreduce(int num_calls) {
    double seconds = 0;
    OnMpiThread([&] {
      const MpiMerge merge(DType::kFloat32, MergeOp());
      const auto all_reduce = [&] {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Iallreduce(input_.data(), output_.data(),
                       static_cast<int>(input_.size()), merge.type(),
                       MpiMerge::Operation(), MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      };
      all_reduce();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < num_calls; ++i) all_reduce();
      seconds = Since(begin) / num_calls;
    });
    return seconds;
  }

  double TimeMpiReduce(const std::shared_ptr<const CollectiveRequest>& request,
                       int num_calls, absl::Status* status) {
    auto output = *Tensor::Wrap(request->dtype, request->shape, output_.data());
    std::shared_ptr<PreparedCollective> prepared;
    *status = Await([&](StatusCallback done) {
      executor_->Prepare(
          {.device = runtime_->devices()[0],
           .request = request,
           .input =
               *Tensor::Wrap(request->dtype, request->shape, input_.data()),
           .output = &output},
          [&prepared, done = std::move(done)](auto made) mutable {
            if (made.ok()) prepared = *made;
            std::move(done)(made.status());
          });
    });
    if (!status->ok()) return 0;
    Chain chain(prepared.get());
    *status = chain.Run(1);
    const auto begin = std::chrono::steady_clock::now();
    if (status->ok()) *status = chain.Run(num_calls);
    const double seconds = Since(begin) / num_calls;
    CheckOutput(status);
    return seconds;
  }

  void CheckOutput(absl::Status* status) const {
    const auto wanted = static_cast<float>(size());
    if (status->ok() && std::any_of(output_.begin(), output_.end(),
                                    [&](float v) { return v != wanted; })) {
      *status = absl::DataLossError("wrong elements");
    }
  }

  double TimeTutti(const std::shared_ptr<const CollectiveRequest>& request,
                   int num_calls, absl::Status* status) {
    auto input = *Tensor::Wrap(request->dtype, request->shape, input_.data());
    auto output = *Tensor::Wrap(request->dtype, request->shape, output_.data());
    const auto all_reduce = [&] {
      return Await([&](StatusCallback done) {
        executor_->ExecuteAsync({.device = runtime_->devices()[0],
                                 .request = request,
                                 .input = input,
                                 .output = &output},
                                std::move(done));
      });
    };
    *status = all_reduce();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < num_calls && status->ok(); ++i) *status = all_reduce();
    const double seconds = Since(begin) / num_calls;
    CheckOutput(status);
    return seconds;
  }

  static double Since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         begin)
        .count();
  }

  MpiRuntime* const mpi_;
  ClusterRuntime* const runtime_;
  const std::shared_ptr<CollectiveExecutor> executor_;
  std::vector<float> input_;
  std::vector<float> output_;
};

absl::Status RunComparison() {
  const DefaultEnvironment environment;
  MpiRuntime mpi({.environment = environment.get()});
  RETURN_IF_ERROR(mpi.Start());
  return RunMpiTask(
      &mpi, environment.get(), /*coordinator=*/{},
      [&](ClusterRuntime* runtime) { return Comparison(&mpi, runtime).Run(); });
}

}  // namespace
}  // namespace tutti

int main() {
  const absl::Status status = tutti::RunComparison();
  if (!status.ok()) std::cerr << "mpi_processes: " << status << '\n';
  return status.ok() ? 0 : 1;
}
