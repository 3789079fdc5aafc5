#ifndef TUTTI_BENCH_PROCESSOR_SECONDS_H_
#define TUTTI_BENCH_PROCESSOR_SECONDS_H_

namespace tutti {

// Processor time that this process has used, in user and system mode.
double ProcessorSeconds();

}  // namespace tutti

#endif  // TUTTI_BENCH_PROCESSOR_SECONDS_H_
