#ifndef TUTTI_BENCH_GPU_BENCH_TURNS_H_
#define TUTTI_BENCH_GPU_BENCH_TURNS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/gpu/gpu_group.h"
#include "bench/gpu/gpu_machine.h"
#include "benchmark/benchmark.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// Amount of work of the benchmarks.
struct BenchScale {
  std::vector<int64_t> sizes = {int64_t{64} << 20, int64_t{256} << 20,
                                int64_t{1} << 30};
  std::vector<int64_t> nccl_sizes = {4, int64_t{4} << 10, int64_t{1} << 20,
                                     int64_t{16} << 20, int64_t{256} << 20};
  int rounds = 6;     // Iterations, after one round that does not count.
  int replays = 200;  // Calls of a turn of small work.

  // Size of each of 16 copies before a turn of small work. The 8 GiB that they
  // read and write keep a GPU of 5 TB/s busy for 1.7 ms, in which a host that
  // takes 4 us for a replay is past all of them. A guess, not measured.
  int64_t hold_bytes = int64_t{256} << 20;

  // Bytes that one turn moves at least, within 50 calls.
  int64_t turn_bytes = int64_t{8} << 30;

  // Number of calls of a turn that move so many bytes each.
  int Calls(int64_t num_bytes) const;
};

struct BenchMachine {
  GpuMachine& machine;
  BenchScale scale = {};
};

// Work that takes turns with other work.
struct Contender {
  std::string name;
  std::function<void()> call;  // Puts a call on its streams.
  GpuStream stream;            // Waits for the calls.

  // Puts work before a turn there, so long that the host gets ahead of it with
  // the turn. Null: the calls themselves take long enough.
  std::function<void()> hold = nullptr;

  // Waits for all calls. Null: waits for `stream`.
  std::function<void()> finish = nullptr;

  // Whether calls put work on their streams late, so that the time of a turn
  // ends behind finish().
  bool ends_on_host = false;
};

// Seconds of a call, of each contender and in each round.
using TurnTimes = std::vector<std::vector<double>>;

// Runs the iterations of `state`: rounds in each of which every contender has a
// turn of `num_calls`, after one call that is not timed, so that the host runs
// ahead of the GPU. The time of an iteration is that of a call of the first
// contender, which moves `num_bytes`. Counts the medians in microseconds.
TurnTimes TakeTurns(benchmark::State& state, const BenchMachine& bench,
                    int num_calls, int64_t num_bytes,
                    const std::vector<Contender>& contenders);

double Median(std::vector<double> values);  // REQUIRES: not empty.

// Median over the rounds of `compare`, which gets the time of the first
// contender and that of the fastest from `other` on. REQUIRES: `other` < the
// number of contenders.
double MedianBesideFastest(
    const TurnTimes& times, size_t other,
    const std::function<double(double first, double fastest)>& compare);

// Counts a figure, and says in the label whether it meets its aim.
struct Aim {
  std::string counter;  // "of_copy_percent"
  double found = 0;
  double wanted = 0;
  bool is_least = false;  // Else `wanted` is the most.
};
void Report(benchmark::State& state, const Aim& aim);

// All-reduce that is measured.
struct BenchShape {
  int num_members = 2;
  DType dtype = DType::kFloat32;
  int64_t num_bytes = 0;  // Size of each buffer.

  int64_t num_elements() const {
    return num_bytes / static_cast<int64_t>(SizeOf(dtype));
  }

  // "RingReduce/float32/members:4/bytes:67108864".
  std::string Name(const std::string& implementation) const;
};

// Group and buffers of an all-reduce: among members on GPU 0, whose inputs lie
// one after the other, as do the outputs; or, for NCCL, among the first GPUs.
class BenchBuffers {
 public:
  BenchBuffers(GpuMachine& machine, const BenchShape& shape,
               bool for_nccl = false);

  GpuGroup& group() { return group_; }
  const Tensor& input(int rank) const { return inputs_[rank]; }
  Tensor& output(int rank) { return outputs_[rank]; }

  // Calls of the implementation by all members.
  Contender Reduction(const std::string& implementation);

  // Copies of all inputs to all outputs, on the first member's compute stream,
  // by our kernel and by cudaMemcpyAsync. Not for NCCL.
  std::vector<Contender> Copies();

 private:
  const BenchShape shape_;
  GpuGroup group_;
  Tensor all_inputs_, all_outputs_;  // Unset for NCCL.
  std::vector<Tensor> inputs_, outputs_;
};

// Registers a benchmark. An error fails the program, except for
// RESOURCE_EXHAUSTED: a benchmark that needs more memory is left out.
void Register(const BenchMachine& bench, const std::string& name,
              std::function<void(benchmark::State& state)> run);

// Registers a benchmark that this machine cannot run.
void RegisterLeftOut(const std::string& name, const std::string& why);

// Registers all benchmarks that the machine has. It outlives them.
//
// GpuLocalReduce of large buffers among 2, 4 and 8 devices on GPU 0, beside its
// kernel alone and beside copies of as many bytes, by our kernel and by
// cudaMemcpyAsync. Small buffers as a CUDA graph that is replayed again and
// again, beside launching each time.
void RegisterLocalBenches(const BenchMachine& bench);

// RingReduce of float32 among 2, 4 and 8 devices on GPU 0, beside copies, and
// the trace of its launches (TraceRing()).
void RegisterRingBenches(const BenchMachine& bench);

// NcclReduce through the executor beside the same ncclAllReduce without Tutti,
// on a communicator that blocks and on one that does not, on one GPU and among
// all: calls in a row, whose time ends when the host knows that all are done.
void RegisterNcclBenches(const BenchMachine& bench);

// Runs the registered benchmarks. Returns how many have failed.
int RunBenches();

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_BENCH_TURNS_H_
