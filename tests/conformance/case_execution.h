#ifndef TUTTI_TESTS_CONFORMANCE_CASE_EXECUTION_H_
#define TUTTI_TESTS_CONFORMANCE_CASE_EXECUTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/cancellation.h"
#include "framework/collective_request.h"
#include "tests/conformance/case.h"
#include "tests/conformance/expectation.h"
#include "tests/conformance/test_group.h"

namespace tutti::conformance {

struct CallOptions {
  int64_t step_id = 1;
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<Cancellation> cancellation;
};

// One execution of a case: what each member called and how its call ended. When
// a call ends, its result is checked there and then, and its memory is written
// over, as a caller might do who waits for nobody else.
class CaseExecution {
 public:
  // `requests` in rank order.
  CaseExecution(
      const Case& c,
      std::vector<std::shared_ptr<const CollectiveRequest>> requests,
      std::shared_ptr<const Expectation> expected);

  // Each call is work for the group's driver, which has to be run.
  void CallAll(TestGroup& group, const CallOptions& options = {});
  void Call(TestGroup& group, int rank, const CallOptions& options = {});

  int num_ended() const;

  // Of a call that ended.
  absl::Status status(int rank) const;

  // ---- Once the driver has run: text, empty if all is well ----

  // Every call has ended, once; no call that ended with OK has a wrong result;
  // and no memory was touched that was not to be.
  std::string CheckEnds() const;

  // CheckEnds(), and all calls ended with OK.
  std::string CheckSuccess() const;

  // CheckEnds(), and some calls failed, all of them with `error`.
  std::string CheckFailure(const absl::Status& error) const;

 private:
  struct Member;

  std::vector<std::shared_ptr<Member>> members_;  // In rank order.
};

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_CASE_EXECUTION_H_
