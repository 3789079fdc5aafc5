#ifndef TUTTI_BENCH_GPU_GROUP_CASES_H_
#define TUTTI_BENCH_GPU_GROUP_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/gpu/gpu_group.h"
#include "bench/gpu/gpu_machine.h"
#include "tests/conformance/case.h"
#include "tests/conformance/tested_implementation.h"

namespace tutti {

// The registered implementation, to be proved with all values of each
// dimension. Throws NOT_FOUND listing the known names.
conformance::ImplementationUnderTest FindUnderTest(const std::string& name);

// Devices of the group, in the order of its ranks.
conformance::Grid GridOf(const GpuGroup& group);

// Cases of all collectives of the implementation that GPUs and the host do
// alike: lengths, blocks of different sizes, reductions, and each dtype with
// each root, permutation and placement, of an odd length.
std::vector<conformance::Case> CasesOf(
    const conformance::ImplementationUnderTest& under_test,
    const conformance::Grid& grid, const CheckScale& scale);

// Adds a case of many bytes for each collective: more than hybrids take at a
// time.
void AddLargeCases(const conformance::ImplementationUnderTest& under_test,
                   const conformance::Grid& grid, const CheckScale& scale,
                   std::vector<conformance::Case>* cases);

// Moment at which outputs are read.
enum class ReadBack : uint8_t {
  kWhenDone,
  kAtOnce,  // Behind the calls on the compute streams, which then wait.
};

// Runs cases of the conformance suite among the group's devices, one after the
// other, and compares all outputs with the expected ones, bit by bit. Fails the
// test with the first case that goes wrong. Tensors of two cases of three do
// not begin where their memory does.
void RunCases(GpuGroup& group,
              const conformance::ImplementationUnderTest& under_test,
              const std::vector<conformance::Case>& cases,
              ReadBack read_back = ReadBack::kWhenDone);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_GROUP_CASES_H_
