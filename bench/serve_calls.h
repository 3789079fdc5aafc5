#ifndef TUTTI_BENCH_SERVE_CALLS_H_
#define TUTTI_BENCH_SERVE_CALLS_H_

#include <cstddef>
#include <functional>
#include <string>

namespace tutti {

// Length of the chain in "chained": each all_reduce takes the result of the
// previous one.
inline constexpr int kChain = 20;

// A call of a collective of float32, which blocks: all_reduce is a sum,
// broadcast is from rank 0. Each buffer has `num_elements`. Returns the error
// text, empty if none.
struct TimedCall {
  std::string collective;
  const float* input = nullptr;
  float* output = nullptr;
  size_t num_elements = 0;
};
using CallFn = std::function<std::string(const TimedCall& call)>;

// Serves bench/processes.py, which sends the same lines to each of `num_ranks`
// processes. For a line "COLLECTIVE BYTES WARMUP CALLS" on standard input,
// makes the calls, one after the other, in the same buffers. Answers with a
// line "OK" and the nanoseconds of each call after the warm-up, or with "ERROR"
// and the reason, such as a wrong element. Returns at the end of the input.
void ServeCalls(int rank, int num_ranks, const CallFn& call);

}  // namespace tutti

#endif  // TUTTI_BENCH_SERVE_CALLS_H_
