#ifndef TUTTI_BENCH_PROCESSOR_SECONDS_H_
#define TUTTI_BENCH_PROCESSOR_SECONDS_H_

namespace tutti {

// What this process has used of its processors, in user and system mode.
double ProcessorSeconds();

}  // namespace tutti

#endif  // TUTTI_BENCH_PROCESSOR_SECONDS_H_
