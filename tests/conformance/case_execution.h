#ifndef TUTTI_TESTS_CONFORMANCE_CASE_EXECUTION_H_
#define TUTTI_TESTS_CONFORMANCE_CASE_EXECUTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/conformance/case.h"
#include "tests/conformance/expectation.h"
#include "tests/conformance/test_group.h"
#include "tutti/collective.h"
#include "tutti/environment.h"

namespace tutti::conformance {

struct CallOptions {
  int64_t step_id = 1;
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<Cancellation> cancellation;

  // Whether each member prepares, and starts what it has prepared.
  bool is_prepared = false;
};

// Execution of a case: the call of each member and how the call ended. As soon
// as a call ends, its result is checked and its memory is overwritten, because
// a caller may do so at once.
class CaseExecution {
 public:
  // `requests` in rank order.
  CaseExecution(const Case& c,
                std::vector<std::shared_ptr<const CollectiveRequest>> requests,
                std::shared_ptr<const Expectation> expected);

  // Each call is work for the group's driver, which has to be run.
  void CallAll(TestGroup& group, const CallOptions& options = {});
  void Call(TestGroup& group, int rank, const CallOptions& options = {});

  // Calls that ended, and those of them that ended with an error.
  int num_ended() const;
  int num_failed() const;

  // Status of a call that has ended.
  absl::Status status(int rank) const;

  // ---- Once the driver has run: text, empty if all is well ----

  // Every call has ended, once, with OK or `error`; the result is right where
  // it is OK; and no memory was touched that was not to be.
  std::string CheckEnds(const absl::Status& error) const;

  // The same, and with OK.
  std::string CheckSuccess() const { return CheckEnds(absl::OkStatus()); }

  // The same, and not all with OK.
  std::string CheckFailure(const absl::Status& error) const;

 private:
  struct Member;

  std::vector<std::shared_ptr<Member>> members_;  // In rank order.
};

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_CASE_EXECUTION_H_
