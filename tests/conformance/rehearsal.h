#ifndef TUTTI_TESTS_CONFORMANCE_REHEARSAL_H_
#define TUTTI_TESTS_CONFORMANCE_REHEARSAL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tests/conformance/case.h"
#include "tests/conformance/case_execution.h"
#include "tests/conformance/expectation.h"
#include "tests/conformance/test_group.h"
#include "tests/conformance/tested_implementation.h"

namespace tutti::conformance {

// A collective that an implementation claims to do, and a group.
struct Claim {
  const ImplementationUnderTest* under_test;
  CollectiveType type;
  Grid grid;
  int64_t length = 0;  // Where the test is about lengths.

  friend void PrintTo(const Claim& claim, std::ostream* out) {
    *out << claim.under_test->name << ", " << Name(claim.type) << " on "
         << ToString(claim.grid);
  }
};

bool Any(CollectiveType type);

// Claims of implementations that run, for collectives that are `wanted`, on all
// grids with at least `min_ranks` ranks.
std::vector<Claim> ClaimsOnGrids(int min_ranks,
                                 bool (*wanted)(CollectiveType) = Any);

// All claims of implementations that run, with each length.
std::vector<Claim> ClaimsWithLengths();

// Names of tests: "RingReduce_all_reduce_2x4_1001" and
// "RingReduce_all_reduce_2x4".
std::string NameWithLength(const testing::TestParamInfo<Claim>& info);
std::string NameWithoutLength(const testing::TestParamInfo<Claim>& info);

// A case with its inputs and what they make, to be run again and again.
class Rehearsal {
 public:
  // Keeps a reference to `under_test`. Errors: as Expectation::Create.
  static absl::StatusOr<Rehearsal> Create(
      const ImplementationUnderTest& under_test, const Case& c,
      InstanceKey key = 1);

  const ImplementationUnderTest& under_test() const { return *under_test_; }
  const Case& what() const { return case_; }
  int num_ranks() const { return case_.grid.size(); }

  // An execution that nobody has called yet.
  CaseExecution Prepare() const { return PrepareInstead(case_); }

  // The same, of a case that makes the same of the same inputs.
  CaseExecution PrepareInstead(const Case& c) const;

  // Runs it to the end. Text, empty if all is well.
  std::string Succeeds(TestGroup& group, const CallOptions& options = {}) const;

 private:
  Rehearsal(const ImplementationUnderTest& under_test, const Case& c,
            InstanceKey key, std::shared_ptr<const Expectation> expected)
      : under_test_(&under_test),
        case_(c),
        key_(key),
        expected_(std::move(expected)) {}

  const ImplementationUnderTest* under_test_;
  Case case_;
  InstanceKey key_;
  std::shared_ptr<const Expectation> expected_;
};

// How a test's work and transfers are driven.
struct Setting {
  std::unique_ptr<WorkDriver> driver;
  Transfers transfers;
};

// "work order of seed 2, deferred transfers".
std::string ToString(const Setting& setting);

// Work in several seeded orders, and on threads.
std::vector<Setting> Settings(Tier tier);

// Calls `test` for every sample in every setting, until it fails.
void ForEachSample(
    const Claim& claim,
    absl::FunctionRef<void(const Rehearsal&, const Setting&)> test);

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_REHEARSAL_H_
