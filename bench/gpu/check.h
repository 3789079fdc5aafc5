#ifndef TUTTI_BENCH_GPU_CHECK_H_
#define TUTTI_BENCH_GPU_CHECK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/gpu/suite_machine.h"

namespace tutti {

// What a check is to find out of a machine.
struct Check {
  std::string name;  // "kernels: sum of float16". Unique.

  // Errors say what was wanted and what was found. It leaves nothing on the
  // GPUs.
  std::function<absl::Status(SuiteMachine& machine)> run;
};

// How much checks do. On a GPU, as much as they can in a minute or two.
struct CheckScale {
  int64_t large_elements = 1'000'003;      // The longest buffers; odd.
  int64_t churn_bytes = int64_t{8} << 20;  // Of tensors that come and go.
  int rounds = 200;                        // Of what has to go right each time.

  // Whether checks may keep streams from going on: not where launches wait for
  // kernels, as they may under tools that watch these.
  bool holds_streams = true;

  // Whether the last check spoils a GPU, after which this process can do
  // nothing more with it.
  bool spoils_gpu = true;
};

// The status, whose message `when` precedes: what was being done.
absl::Status During(const std::string& when, const absl::Status& status);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_CHECK_H_
