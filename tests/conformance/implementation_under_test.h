#ifndef TUTTI_TESTS_CONFORMANCE_IMPLEMENTATION_UNDER_TEST_H_
#define TUTTI_TESTS_CONFORMANCE_IMPLEMENTATION_UNDER_TEST_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti::conformance {

// Which implementation the program proves, and how thoroughly.
struct ImplementationUnderTest {
  std::string name;
  std::shared_ptr<const CollectiveFactory> factory;
  const Algorithm* algorithm = nullptr;  // Null if it is not a schedule.
  bool quick = false;
  bool unproved = false;  // Run it whatever the proof of its schedules says.

  const ImplementationTraits& traits() const { return factory->traits(); }
};

// Reads --implementation=NAME, --quick and --unproved. Errors: INVALID_ARGUMENT
// without a name or if the implementation does not run on CPU devices;
// NOT_FOUND listing the known names; that of a registration.
absl::Status ReadArguments(int argc, char** argv);

// REQUIRES: ReadArguments() was OK.
const ImplementationUnderTest& UnderTest();

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_IMPLEMENTATION_UNDER_TEST_H_
