#ifndef TUTTI_TESTS_FUZZ_FUZZ_TARGET_H_
#define TUTTI_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

// A fuzz target defines these two: what it does with the bytes of a peer, and
// what a peer in good order would send, from which inputs are bred. See
// fuzz_test.bzl. An input must leave nothing behind for the next.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
std::vector<std::string> FuzzSeeds();

// What is promised for all inputs. Ends the process, saying so, if it does not
// hold: that is what a fuzzer takes for a finding.
void Promise(bool holds, const char* what);

}  // namespace tutti

#endif  // TUTTI_TESTS_FUZZ_FUZZ_TARGET_H_
