#include "bench/serve_calls.h"

#include <chrono>
#include <cstdint>
#include <iostream>
#include <sstream>
#include <vector>

namespace tutti {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// Element of rank `rank` at `index`. Sums of a few elements do not round.
float Element(int rank, size_t index) {
  return static_cast<float>(static_cast<size_t>(rank) + 1 + index % 1000);
}

int ChainOf(const std::string& collective) {
  return collective == "chained" ? kChain : 1;
}

float Wanted(const std::string& collective, int num_ranks, size_t index) {
  if (collective == "broadcast") return Element(0, index);
  // Elements of rank r exceed those of rank 0 by r.
  auto sum = static_cast<float>(num_ranks) *
             (Element(0, index) + static_cast<float>(num_ranks - 1) / 2);
  for (int i = 1; i < ChainOf(collective); ++i) {
    sum *= static_cast<float>(num_ranks);
  }
  return sum;
}

struct Job {
  TimedCall call;
  int num_warmup = 0;
  int num_calls = 0;
};

// Makes the calls of a job. Returns the error text, empty if none.
std::string Run(const Job& job, const CallFn& call,
                std::vector<int64_t>* times) {
  for (int i = 0; i < job.num_warmup + job.num_calls; ++i) {
    const auto begin = steady_clock::now();
    std::string error = call(job.call);
    const auto end = steady_clock::now();
    if (!error.empty()) return error;
    if (i >= job.num_warmup) {
      times->push_back(nanoseconds(end - begin).count() /
                       ChainOf(job.call.collective));
    }
  }
  return "";
}

std::string Check(const TimedCall& call, int num_ranks) {
  for (size_t i = 0; i < call.num_elements; ++i) {
    const float wanted = Wanted(call.collective, num_ranks, i);
    if (call.output[i] == wanted) continue;
    std::ostringstream error;
    error << call.collective << ": element " << i << " of " << call.num_elements
          << " is " << call.output[i] << ", wanted " << wanted;
    return error.str();
  }
  return "";
}

}  // namespace

void ServeCalls(int rank, int num_ranks, const CallFn& call) {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    Job job;
    size_t num_bytes = 0;
    words >> job.call.collective >> num_bytes >> job.num_warmup >>
        job.num_calls;
    const size_t num_elements = num_bytes / sizeof(float);
    std::vector<float> input(num_elements);
    for (size_t i = 0; i < num_elements; ++i) input[i] = Element(rank, i);
    std::vector<float> output(num_elements, -1.0F);
    job.call.input = input.data();
    job.call.output = output.data();
    job.call.num_elements = num_elements;
    std::vector<int64_t> times;
    std::string error = Run(job, call, &times);
    if (error.empty()) error = Check(job.call, num_ranks);
    // Written in one piece, since processes may share standard output.
    std::ostringstream answer;
    answer << (error.empty() ? "OK" : "ERROR " + error);
    if (error.empty()) {
      for (const int64_t time : times) answer << ' ' << time;
    }
    answer << '\n';
    std::cout << answer.str() << std::flush;
  }
}

}  // namespace tutti
