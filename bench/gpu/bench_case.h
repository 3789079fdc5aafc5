#ifndef TUTTI_BENCH_GPU_BENCH_CASE_H_
#define TUTTI_BENCH_GPU_BENCH_CASE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/gpu/gpu_timing.h"
#include "bench/gpu/ring_trace.h"
#include "bench/gpu/suite_machine.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// How much benchmarks do.
struct BenchScale {
  std::vector<int64_t> sizes = {int64_t{64} << 20, int64_t{256} << 20,
                                int64_t{1} << 30};
  std::vector<int64_t> nccl_sizes = {4, int64_t{4} << 10, int64_t{1} << 20,
                                     int64_t{16} << 20, int64_t{256} << 20};
  int rounds = 7;     // Of which the first does not count.
  int replays = 200;  // Of small work, in a row.

  // Copied 16 times before each turn of small work: the 8 GiB that are read and
  // written keep a GPU of 5 TB/s busy for 1.7 ms, in which a host that takes
  // 4 us for a replay is past all of them. A guess, not measured.
  int64_t hold_bytes = int64_t{256} << 20;

  // What one turn moves at least, as far as that is no more than 50 calls.
  int64_t turn_bytes = int64_t{8} << 30;
};

struct BenchMachine {
  SuiteMachine& machine;
  GpuTiming& timing;  // Of GPU 0.
  BenchScale scale;
};

// One of those that take turns.
struct Contender {
  std::string name;

  // Puts so many calls on its streams. `stream` then waits for them.
  std::function<absl::Status(int num_calls)> enqueue;
  GpuStream stream;

  // Puts work before a turn there, so long that the host gets ahead of it with
  // the turn. Null: the calls themselves take long enough.
  std::function<absl::Status()> hold = nullptr;

  // Waits for all that was put there. Null: for `stream`.
  std::function<absl::Status()> finish = nullptr;

  std::vector<double> seconds = {};  // Of a call, in each round.
};

// Gives each contender a turn of `num_calls` in every round, after one call
// that is not timed, so that the host runs ahead of the GPU; adds the times to
// those of the contenders.
absl::Status TakeTurns(const BenchMachine& bench, int num_calls,
                       std::vector<Contender>& contenders);

// What was found, beside what was aimed at.
struct Aim {
  enum class Bound { kAtLeast, kAtMost };

  std::string what;  // "of the speed of a copy".
  double found = 0;
  double wanted = 0;
  Bound bound = Bound::kAtMost;
  std::string unit;  // "%", "us".

  bool is_met() const {
    return bound == Bound::kAtLeast ? found >= wanted : found <= wanted;
  }
  std::string ToString() const;
};

struct BenchResult {
  std::vector<Contender> contenders;
  Aim aim;  // Of the first one.
  int64_t num_bytes =
      0;  // That a call reads and writes; 0 where it matters not.
  RingTrace trace = {};  // Of a ring, else empty.
};

struct BenchCase {
  std::string name;
  // Errors: RESOURCE_EXHAUSTED if the GPU has too little memory for it.
  std::function<absl::StatusOr<BenchResult>(const BenchMachine& bench)> run;
};

double Median(std::vector<double> values);  // REQUIRES: not empty.

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_BENCH_CASE_H_
