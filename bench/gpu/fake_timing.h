#ifndef TUTTI_BENCH_GPU_FAKE_TIMING_H_
#define TUTTI_BENCH_GPU_FAKE_TIMING_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/gpu/gpu_timing.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// For tests: GpuTiming of the double of the GPU runtime. Every turn takes the
// next of `seconds`, over and over again; of the marks each that a stream comes
// to is 1 us later. A graph calls what it was made of, or does nothing.
class FakeTiming : public GpuTiming {
 public:
  struct Options {
    std::vector<double> seconds = {1e-6};
    bool has_empty_graphs = false;
    std::function<void()> on_start;  // Sees what a turn has begun with.
  };

  explicit FakeTiming(FakeGpuRuntime& runtime) : FakeTiming(runtime, {}) {}
  FakeTiming(FakeGpuRuntime& runtime, Options options)
      : runtime_(runtime), options_(std::move(options)) {}

  absl::Status Start(GpuStream /*stream*/) override {
    if (options_.on_start != nullptr) options_.on_start();
    return absl::OkStatus();
  }
  absl::Status Stop(GpuStream /*stream*/) override { return absl::OkStatus(); }
  absl::StatusOr<double> Seconds() override {
    return options_.seconds[num_turns_++ % options_.seconds.size()];
  }

  absl::StatusOr<int> Mark(GpuStream stream) override {
    const size_t mark = marks_->times.size();
    marks_->times.push_back(0);
    absl::Status status =
        runtime_.Put(stream, [marks = marks_, mark](FakeGpuMemory&) {
          marks->times[mark] = ++marks->now;
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    return static_cast<int>(mark);
  }
  absl::StatusOr<double> SecondsBetween(int from, int to) override {
    return (marks_->times.at(to) - marks_->times.at(from)) * 1e-6;
  }

  absl::StatusOr<std::unique_ptr<GpuGraph>> Capture(
      GpuStream /*stream*/,
      absl::FunctionRef<absl::Status()> enqueue) override {
    if (options_.has_empty_graphs) {
      return std::make_unique<Graph>(absl::OkStatus);
    }
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

  struct Marks {
    int now = 0;
    std::vector<int> times;
  };

  FakeGpuRuntime& runtime_;
  const Options options_;
  size_t num_turns_ = 0;
  const std::shared_ptr<Marks> marks_ = std::make_shared<Marks>();
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_FAKE_TIMING_H_
