#ifndef TUTTI_BENCH_GPU_FAKE_MACHINE_H_
#define TUTTI_BENCH_GPU_FAKE_MACHINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/gpu/gpu_machine.h"
#include "bench/gpu/launch_trace.h"
#include "bench/gpu/pending_calls.h"
#include "bench/gpu/planted_faults.h"
#include "bench/gpu/waiter.h"
#include "framework/base/status_macros.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// For tests: waits by running the scheduled work. What has not ended then never
// will.
class SimulatedWaiter : public Waiter {
 public:
  SimulatedWaiter(FakeGpuRuntime& runtime, SimulatedEnvironment& environment)
      : Waiter(runtime), runtime_(runtime), environment_(environment) {}

  absl::Status Wait(PendingCalls& calls) override {
    environment_.RunAll();
    // Looks at the GPU, as BlockingWaiter does.
    if (!calls.have_ended()) {
      NewEvent(runtime_, 0).status().IgnoreError();
      environment_.Advance(GpuPassEnd::kLookEvery);
    }
    if (calls.have_ended()) return calls.status();
    return absl::DeadlineExceededError(calls.Missing());
  }

  // Streams look at a gate, because no other thread could release the host.
  absl::StatusOr<std::unique_ptr<StreamHold>> Hold(
      GpuStream stream, absl::Duration limit) override {
    auto hold = std::make_unique<StreamHold>(*environment_.get().clock, limit,
                                             runtime_.Waker());
    RETURN_IF_ERROR(runtime_.PutGate(stream, hold->gate()));
    return hold;
  }

 private:
  FakeGpuRuntime& runtime_;
  SimulatedEnvironment& environment_;
};

// For tests: each turn takes the next of `seconds`, over and over again. A
// graph calls the function that it was made of, or does nothing.
class FakeTiming : public GpuTiming {
 public:
  FakeTiming(std::vector<double> seconds, bool has_empty_graphs,
             std::function<void()> on_start)
      : seconds_(std::move(seconds)),
        has_empty_graphs_(has_empty_graphs),
        on_start_(std::move(on_start)) {}

  absl::Status Start(GpuStream /*stream*/) override {
    if (on_start_) on_start_();
    return absl::OkStatus();
  }
  absl::Status Stop(GpuStream /*stream*/) override { return absl::OkStatus(); }
  absl::StatusOr<double> Seconds() override {
    return seconds_[num_turns_++ % seconds_.size()];
  }
  absl::StatusOr<std::unique_ptr<GpuGraph>> Capture(
      GpuStream /*stream*/,
      absl::FunctionRef<absl::Status()> enqueue) override {
    if (has_empty_graphs_) return std::make_unique<Graph>(absl::OkStatus);
    return std::make_unique<Graph>(enqueue);
  }

 private:
  class Graph : public GpuGraph {
   public:
    explicit Graph(absl::FunctionRef<absl::Status()> enqueue)
        : enqueue_(enqueue) {}
    absl::Status Launch(GpuStream /*stream*/) override { return enqueue_(); }

   private:
    const absl::FunctionRef<absl::Status()> enqueue_;
  };

  const std::vector<double> seconds_;
  const bool has_empty_graphs_;
  const std::function<void()> on_start_;
  size_t num_turns_ = 0;
};

// For tests: a machine of doubles, which takes no time and finds leaks.
struct FakeMachine {
  struct Options {
    uint64_t seed = 1;
    int num_gpus = 4;
    PeerLink link = PeerLink::kNvLink;
    absl::Status nccl;            // OK: there is NCCL.
    std::string why_nccl_blocks;  // Empty: its communicators do not block.
    Fault fault;
    std::vector<double> seconds = {1e-6};  // Given to FakeTiming.
    std::function<void()> on_start;        // Given to FakeTiming.
  };

  explicit FakeMachine(const Options& options)
      : environment(options.seed),
        runtime(options.fault, environment,
                FakeGpuRuntime::Options{
                    .num_gpus = options.num_gpus,
                    .memory_bytes = int64_t{1} << 26,
                    .link = [link = options.link](int, int) { return link; },
                    .environment = environment.get()}),
        network(std::make_shared<FakeNcclNetwork>()),
        nccl(std::make_shared<FaultyNcclRuntime>(options.fault, environment,
                                                 network, &runtime)),
        timing(options.seconds, options.fault == "graph", options.on_start),
        waiter(runtime, environment),
        machine{.runtime = runtime,
                .trace = runtime.trace(),
                .timing = timing,
                .waiter = waiter,
                .environment = environment.get(),
                .nccl = nccl,
                .scale = {
                    .large_elements = 211, .churn_bytes = 1024, .rounds = 9}} {
    nccl->Block(options.why_nccl_blocks);
    if (!options.nccl.ok()) machine.nccl = options.nccl;
    num_nccl_users = nccl.use_count();
  }
  ~FakeMachine() { environment.RunAll(); }
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;

  // Mistakes that were made, and things that are left. The machine can do
  // nothing more then.
  std::vector<std::string> Complaints() {
    machine.host_memory = nullptr;
    environment.RunAll();
    std::vector<std::string> all = runtime.Mistakes();
    for (const auto& part : {runtime.Leaks(), network->Mistakes()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    if (network->counts().living != 0) all.push_back("a communicator lives");
    if (nccl.use_count() != num_nccl_users) all.push_back("NCCL is in use");
    return all;
  }

  SimulatedEnvironment environment;
  TracedRuntime<FaultyGpuRuntime> runtime;
  const std::shared_ptr<FakeNcclNetwork> network;
  const std::shared_ptr<FaultyNcclRuntime> nccl;
  FakeTiming timing;
  SimulatedWaiter waiter;
  GpuMachine machine;
  long num_nccl_users = 0;  // NOLINT(google-runtime-int): as use_count().
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_FAKE_MACHINE_H_
