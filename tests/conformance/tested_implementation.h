#ifndef TUTTI_TESTS_CONFORMANCE_TESTED_IMPLEMENTATION_H_
#define TUTTI_TESTS_CONFORMANCE_TESTED_IMPLEMENTATION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti::conformance {

// Number of cases: a few values of each dimension; all values, in pairs; all
// values with each other.
enum class Tier : uint8_t { kQuick, kDefault, kDeep };

// An implementation that the program proves, and how thoroughly.
struct ImplementationUnderTest {
  std::string name;
  std::shared_ptr<const CollectiveFactory> factory;
  const Algorithm* algorithm = nullptr;  // Null if it is not a schedule.
  Tier tier = Tier::kDefault;
  bool is_proved = true;  // False to run it without a proof of its schedules.
  bool is_run = true;     // False to prove its schedules only.

  const ImplementationTraits& traits() const { return factory->traits(); }
};

// Reads --implementation=NAME, --quick, --deep and --unproved. Without a name
// all registered implementations are under test that run on CPU devices.
// Errors: INVALID_ARGUMENT if there is none, or if that of the name does not
// run on CPU devices; NOT_FOUND listing the known names; the error of a
// registration.
absl::Status ReadArguments(int argc, char** argv);

// Leaves an implementation unrun if its schedules are wrong in groups of 8
// ranks or fewer, or in Tier::kDeep of 16, unless --unproved is given: errors
// of schedules show in thousands of runs, or as runs without an end. REQUIRES:
// ReadArguments() was OK.
void ProveBeforeRuns();

// In the order of names. REQUIRES: ReadArguments() was OK.
const std::vector<ImplementationUnderTest>& UnderTest();

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_TESTED_IMPLEMENTATION_H_
