#ifndef TUTTI_BENCH_SERVE_CALLS_H_
#define TUTTI_BENCH_SERVE_CALLS_H_

#include <cstddef>
#include <functional>
#include <string>

namespace tutti {

// "chained" is so many all_reduce, each of the result of the one before.
inline constexpr int kChain = 20;

// One call of a collective of float32, which blocks: all_reduce is a sum,
// broadcast is from rank 0. Each buffer has `num_elements`. Returns what went
// wrong, or nothing.
struct TimedCall {
  std::string collective;
  const float* input = nullptr;
  float* output = nullptr;
  size_t num_elements = 0;
};
using CallFn = std::function<std::string(const TimedCall& call)>;

// Serves bench/processes.py, in one of `num_ranks` processes that it tells the
// same. A line "COLLECTIVE BYTES WARMUP CALLS" of standard input has the calls
// made, one after the other, in the same buffers; the answer is a line "OK"
// with the nanoseconds of each collective after the warm-up, or "ERROR" with
// the reason, such as a wrong element. Returns at the end of the input.
void ServeCalls(int rank, int num_ranks, const CallFn& call);

}  // namespace tutti

#endif  // TUTTI_BENCH_SERVE_CALLS_H_
