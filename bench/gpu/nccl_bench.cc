#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/gpu/bench_turns.h"
#include "bench/gpu/gpu_machine.h"
#include "benchmark/benchmark.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

constexpr int64_t kLargeBytes = int64_t{16} << 20;
constexpr double kMostMicroseconds = 3;
constexpr double kMostPercent = 2;

// Calls beside which the wait at their end is little.
constexpr int64_t kFewestCalls = 50;

constexpr absl::Duration kLongestWait = absl::Minutes(1);

// NCCL as a program without Tutti uses it: a communicator of the first GPUs of
// this process, one rank and one stream on each. Only NcclRuntime stands
// between the caller and NCCL's functions. Belongs to one thread; the machine
// outlives it.
class RawNccl {
 public:
  // Returns when the communicator is made. Its calls block or not, as `blocks`
  // says.
  RawNccl(GpuMachine& machine, int num_gpus, bool blocks)
      : machine_(machine), nccl_(*machine.nccl) {
    std::vector<NcclRank> ranks;
    for (int gpu = 0; gpu < num_gpus; ++gpu) {
      streams_.push_back(NewStream(machine.runtime, gpu).value());
      ranks.push_back({.rank = gpu, .gpu = gpu});
    }
    comms_ = blocks ? nccl_->CommInitBlocking(ranks).value()
                    : nccl_
                          ->CommInitRanks(nccl_->NewUniqueId().value(),
                                          num_gpus, ranks)
                          .value();
    status_ = AwaitReady();
  }

  // Waits for all launches.
  ~RawNccl() {
    if (status_.ok()) status_ = TryToFinish();
    if (status_.ok()) status_ = nccl_->Finalize(comms_);
    if (status_.ok()) status_ = AwaitReady();
    (status_.ok() ? nccl_->Destroy(comms_) : nccl_->Abort(comms_))
        .IgnoreError();
  }
  RawNccl(const RawNccl&) = delete;
  RawNccl& operator=(const RawNccl&) = delete;

  GpuStream stream(int rank) const { return streams_[rank].get(); }

  // Puts the call of each rank on its stream, and returns when they are there.
  void Launch(const std::vector<NcclCall>& calls) {
    parts_.resize(comms_.size());
    for (size_t rank = 0; rank < comms_.size(); ++rank) {
      parts_[rank].comm = comms_[rank];
      parts_[rank].stream = streams_[rank].get();
      parts_[rank].calls.assign(1, calls[rank]);
    }
    if (status_.ok()) status_ = nccl_->Launch(parts_);
    if (status_.ok()) status_ = AwaitReady();
    Ok(status_);
  }

  // Waits for all streams.
  void Finish() { Ok(TryToFinish()); }

 private:
  absl::Status TryToFinish() {
    absl::Status status = status_;
    for (const OwnedGpuStream& stream : streams_) {
      // A failed communicator may never let its streams end.
      if (status.ok()) status = machine_.waiter.WaitFor(stream.get());
    }
    return status;
  }

  // Asks without a pause, because a launch takes NCCL microseconds.
  absl::Status AwaitReady() {
    Clock& clock = *machine_.environment.clock;
    const absl::Time latest = clock.Now() + kLongestWait;
    while (clock.Now() < latest) {
      const absl::StatusOr<bool> are_ready = AreReady(*nccl_, comms_);
      if (!are_ready.ok() || *are_ready) return are_ready.status();
    }
    return absl::DeadlineExceededError("NCCL was not ready after a minute");
  }

  GpuMachine& machine_;
  const std::shared_ptr<NcclRuntime> nccl_;
  std::vector<OwnedGpuStream> streams_;
  std::vector<NcclComm> comms_;
  std::vector<NcclPart> parts_;  // A launch: memory that is used again.
  absl::Status status_;          // First error of the communicator.
};

void RunNccl(const BenchMachine& bench, const BenchShape& shape,
             benchmark::State& state) {
  BenchBuffers buffers(bench.machine, shape, /*for_nccl=*/true);
  std::vector<NcclCall> calls;
  for (int rank = 0; rank < shape.num_members; ++rank) {
    calls.push_back({.input = buffers.input(rank).data(),
                     .output = buffers.output(rank).mutable_data(),
                     .num_elements = static_cast<size_t>(shape.num_elements()),
                     .dtype = shape.dtype});
  }
  std::vector<Contender> contenders = {buffers.Reduction("NcclReduce")};
  std::vector<std::unique_ptr<RawNccl>> communicators;
  for (const bool blocks : {true, false}) {
    // All of Tutti's communicators block where one has to.
    if (!blocks && !(*bench.machine.nccl)->WhyBlocking().empty()) continue;
    communicators.push_back(
        std::make_unique<RawNccl>(bench.machine, shape.num_members, blocks));
    RawNccl& raw = *communicators.back();
    contenders.push_back(
        {.name = blocks ? "ncclAllReduce" : "ncclAllReduce_not_blocking",
         .call = [&raw, &calls] { raw.Launch(calls); },
         .stream = raw.stream(0),
         .finish = [&raw] { raw.Finish(); }});
  }
  for (Contender& contender : contenders) contender.ends_on_host = true;
  const int64_t num_calls =
      std::max(kFewestCalls, bench.scale.turn_bytes / shape.num_bytes);
  const TurnTimes times = TakeTurns(
      state, bench,
      static_cast<int>(std::min<int64_t>(bench.scale.replays, num_calls)),
      2 * shape.num_members * shape.num_bytes, contenders);
  const bool is_large = shape.num_bytes >= kLargeBytes;
  const auto compare = [is_large](double ours, double raw) {
    return is_large ? 100 * (ours - raw) / raw : 1e6 * (ours - raw);
  };
  Report(state, {.counter = is_large ? "more_percent" : "more_us",
                 .found = MedianBesideFastest(times, 1, compare),
                 .wanted = is_large ? kMostPercent : kMostMicroseconds});
}

}  // namespace

void RegisterNcclBenches(const BenchMachine& bench) {
  if (!bench.machine.nccl.ok()) {
    return RegisterLeftOut("NcclReduce",
                           std::string(bench.machine.nccl.status().message()));
  }
  std::vector<int> sizes = {1};
  if (bench.machine.num_gpus() > 1) sizes.push_back(bench.machine.num_gpus());
  for (const int num_gpus : sizes) {
    for (const int64_t size : bench.scale.nccl_sizes) {
      const BenchShape shape = {.num_members = num_gpus, .num_bytes = size};
      Register(bench, shape.Name("NcclReduce"),
               [bench, shape](benchmark::State& state) {
                 RunNccl(bench, shape, state);
               });
    }
  }
}

}  // namespace tutti
