// Runs collectives of all kinds repeatedly as one task of a cluster, and prints
// the process's resources in between: bench/soak.py checks whether they grow.
//
// usage: soak_worker ADDRESS,... TASK DEVICES SEED
//
// At a line "batch" on standard input, which all tasks get, the task runs each
// of its workloads once, some at a time, in separate steps. Every few batches
// the group ends and is formed again. The answer is "OK" and these numbers of
// this process, in this order: bytes of memory, bytes in use of the heap, file
// descriptors, threads, settled instances, and calls that wait for an instance;
// or "ERROR" with the reason, such as wrong elements.

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "bench/run_task.h"
#include "framework/base/status_macros.h"
#include "resolvers/leader/param_resolver_distributed.h"
#include "tools/measure/perf_buffers.h"
#include "tools/request/collective_spec.h"
#include "tools/request/workload.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

constexpr absl::Duration kCallTimeout = absl::Minutes(2);

constexpr GroupKey kGroup = 1;
constexpr GroupKey kMeetingGroup = 2;  // First devices of all tasks.
constexpr int64_t kMeetingStep = 0;

constexpr int kNumWorkloads = 60;
constexpr int kAtATime = 3;
constexpr int kBatchesOfAGeneration = 4;
constexpr double kMinBytes = 4;
constexpr double kMaxBytes = 16 << 20;

// Every type of collective in turn, with every reduction. Supported dtypes and
// sizes are random, but one all-reduce has the smallest size and another the
// largest.
std::vector<Workload> MakeWorkloads(int num_ranks, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(std::log(kMinBytes),
                                                  std::log(kMaxBytes));
  const std::vector<std::string> reductions = {"sum", "max", "min", "avg",
                                               "prod"};
  std::vector<Workload> workloads;
  for (int i = 0; i < kNumWorkloads; ++i) {
    Workload workload{.group_size = num_ranks};
    workload.spec.type = kAllCollectiveTypes[i % kAllCollectiveTypes.size()];
    CollectiveWords words{.collective = std::string(Name(workload.spec.type))};
    const int turn = i / static_cast<int>(kAllCollectiveTypes.size());
    if (Reduces(workload.spec.type)) {
      words.reduction = reductions[turn % reductions.size()];
      if (IsScan(workload.spec.type) && words.reduction == "avg") {
        words.reduction = "sum";  // Scans have no averages.
      }
    }
    if (workload.spec.type == CollectiveType::kPermute) {
      for (int rank = 0; rank < num_ranks; ++rank) {
        words.permutation.push_back((rank + turn) % num_ranks);
      }
    }
    workload.spec = *ParseCollectiveSpec(words);
    workload.spec.root = turn % num_ranks;
    double bytes = std::exp(exponent(random));
    if (i == 0) bytes = kMinBytes;
    if (i == kNumWorkloads - static_cast<int>(kAllCollectiveTypes.size())) {
      bytes = kMaxBytes;
    }
    do {
      workload.dtype = kAllDTypes[random() % kAllDTypes.size()];
      workload.count = CountFor(workload.spec.type, workload.dtype, num_ranks,
                                static_cast<int64_t>(bytes));
    } while (!WhyInvalid(RequestOf(workload, 0)).empty());
    workloads.push_back(std::move(workload));
  }
  return workloads;
}

class Soak {
 public:
  Soak(const Environment& environment, ClusterRuntime* runtime, uint64_t seed)
      : environment_(environment),
        runtime_(runtime),
        num_local_(static_cast<int>(runtime->devices().size())),
        workloads_(
            MakeWorkloads(runtime->cluster().num_tasks() * num_local_, seed)),
        random_(seed) {}

  absl::Status RunBatch() {
    if (num_batches_++ % kBatchesOfAGeneration == kBatchesOfAGeneration - 1) {
      RETURN_IF_ERROR(EndGeneration());
    }
    std::vector<size_t> order(workloads_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    for (size_t begin = 0; begin < order.size(); begin += kAtATime) {
      const auto part = absl::MakeSpan(order).subspan(begin, kAtATime);
      RETURN_IF_ERROR(RunStep(part));
    }
    return Meet();
  }

 private:
  // Returns when all tasks have called Meet().
  absl::Status Meet() {
    CollectiveRequest request;
    request.group_key = kMeetingGroup;
    request.group_size = runtime_->cluster().num_tasks();
    request.rank = runtime_->cluster().this_task;
    request.op = Barrier();
    return Await([&](StatusCallback done) {
      runtime_->manager()
          .FindOrCreate(kMeetingStep)
          ->ExecuteAsync({.device = runtime_->devices()[0],
                          .request = std::make_shared<const CollectiveRequest>(
                              std::move(request)),
                          .deadline = environment_.clock->Now() + kCallTimeout},
                         std::move(done));
    });
  }

  absl::Status EndGeneration() {
    RETURN_IF_ERROR(Meet());
    runtime_->ReformGroup(kGroup, absl::AbortedError("a new generation"));
    return Meet();
  }

  // Runs these workloads at once; then the step ends on all tasks by each
  // task's own clean-up.
  absl::Status RunStep(absl::Span<const size_t> workloads) {
    ++step_;
    std::vector<std::unique_ptr<PerfBuffers>> buffers;
    for (const size_t i : workloads) {
      ASSIGN_OR_RETURN(
          auto made,
          PerfBuffers::Create(
              workloads_[i],
              {runtime_->cluster().this_task * num_local_, num_local_},
              {.hot = true,
               .check = true,
               .seed = static_cast<uint64_t>(step_)},
              environment_.queue));
      buffers.push_back(std::move(made));
    }
    RETURN_IF_ERROR(RunAll(workloads, buffers));
    RETURN_IF_ERROR(Check(workloads, buffers));
    RETURN_IF_ERROR(Meet());
    return Await([&](StatusCallback done) {
      runtime_->CleanupStep(step_, std::move(done));
    });
  }

  absl::Status RunAll(
      absl::Span<const size_t> workloads,
      const std::vector<std::unique_ptr<PerfBuffers>>& buffers) {
    const int num_calls = static_cast<int>(workloads.size()) * num_local_;
    std::vector<absl::Status> statuses(static_cast<size_t>(num_calls));
    BlockingCounter left(num_calls);
    auto status = statuses.begin();
    const auto executor = runtime_->manager().FindOrCreate(step_);
    for (size_t i = 0; i < workloads.size(); ++i) {
      std::vector<RankBuffers>& ranks = buffers[i]->Next();
      for (int device = 0; device < num_local_; ++device, ++status) {
        RankBuffers& of_rank = ranks[static_cast<size_t>(device)];
        executor->ExecuteAsync(
            {.device = runtime_->devices()[static_cast<size_t>(device)],
             .request = RequestFor(workloads[i], device),
             .input = of_rank.input,
             .output = of_rank.output.is_set() ? &of_rank.output : nullptr,
             .deadline = environment_.clock->Now() + kCallTimeout},
            [&left, into = &*status](absl::Status result) {
              *into = std::move(result);
              left.DecrementCount();
            });
      }
    }
    left.Wait();
    absl::Status first;
    for (const absl::Status& one : statuses) first.Update(one);
    return first;
  }

  std::shared_ptr<const CollectiveRequest> RequestFor(size_t workload,
                                                      int device) const {
    CollectiveRequest request =
        RequestOf(workloads_[workload],
                  runtime_->cluster().this_task * num_local_ + device);
    request.group_key = kGroup;
    request.instance_key = static_cast<InstanceKey>(workload);
    return std::make_shared<const CollectiveRequest>(std::move(request));
  }

  absl::Status Check(
      absl::Span<const size_t> workloads,
      const std::vector<std::unique_ptr<PerfBuffers>>& buffers) const {
    for (size_t i = 0; i < workloads.size(); ++i) {
      const Workload& workload = workloads_[workloads[i]];
      if (workload.spec.type == CollectiveType::kBarrier) continue;
      const int64_t num_wrong = buffers[i]->CountWrong();
      if (num_wrong == 0) continue;
      return absl::DataLossError(absl::StrCat(
          num_wrong, " elements are wrong: ", ToString(workload.spec), " of ",
          BytesOf(workload), " bytes, ", Name(workload.dtype)));
    }
    return absl::OkStatus();
  }

  const Environment environment_;
  ClusterRuntime* const runtime_;
  const int num_local_;
  const std::vector<Workload> workloads_;
  std::mt19937_64 random_;
  int64_t num_batches_ = 0;
  int64_t step_ = kMeetingStep;
};

int64_t CountEntries(const char* folder) {
  const auto entries = std::filesystem::directory_iterator(folder);
  return std::distance(begin(entries), end(entries));
}

int64_t ResidentBytes() {
  int64_t all_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> all_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

std::string Counts(ClusterRuntime* runtime) {
  malloc_trim(0);  // Returns free memory to the system.
  const auto heap = mallinfo2();
  auto& resolver = dynamic_cast<ParamResolverDistributed&>(
      runtime->manager().param_resolver());
  return absl::StrCat(ResidentBytes(), " ", heap.uordblks + heap.hblkhd, " ",
                      CountEntries("/proc/self/fd"), " ",
                      CountEntries("/proc/self/task"), " ",
                      resolver.num_entries(), " ", resolver.num_waiting());
}

absl::Status Serve(const Environment& environment, uint64_t seed,
                   ClusterRuntime* runtime) {
  std::cout << "READY soak" << std::endl;
  Soak soak(environment, runtime, seed);
  absl::Status status;
  std::string line;
  while (status.ok() && std::getline(std::cin, line)) {
    status = soak.RunBatch();
    std::cout << (status.ok() ? absl::StrCat("OK ", Counts(runtime))
                              : absl::StrCat("ERROR ", status.ToString()))
              << std::endl;
  }
  return status;
}

int Main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: soak_worker ADDRESS,... TASK DEVICES SEED\n";
    return 2;
  }
  // Makes freed buffers go back to the system, without holes in the heap.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  const DefaultEnvironment environment(2);
  const uint64_t seed = std::strtoull(argv[4], nullptr, 10);
  const absl::Status status = RunTask(
      {.cluster = {.addresses = absl::StrSplit(argv[1], ','),
                   .this_task = std::atoi(argv[2])},
       .environment = environment.get()},
      /*devices_per_task=*/std::atoi(argv[3]), [&](ClusterRuntime* runtime) {
        return Serve(environment.get(), seed, runtime);
      });
  if (!status.ok()) std::cerr << "soak_worker: " << status << '\n';
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::Main(argc, argv); }
