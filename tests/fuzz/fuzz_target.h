#ifndef TUTTI_TESTS_FUZZ_FUZZ_TARGET_H_
#define TUTTI_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

// A fuzz target defines these two functions: the first processes the bytes of a
// peer, the second returns the bytes that a correct peer would send, from which
// inputs are derived. See fuzz_test.bzl. An input must not affect the next one.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
std::vector<std::string> FuzzSeeds();

// Checks a promise made for all inputs. If it does not hold, prints `what` and
// ends the process, which fuzzers report as a finding.
void Promise(bool holds, const char* what);

}  // namespace tutti

#endif  // TUTTI_TESTS_FUZZ_FUZZ_TARGET_H_
