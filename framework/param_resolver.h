#ifndef TUTTI_FRAMEWORK_PARAM_RESOLVER_H_
#define TUTTI_FRAMEWORK_PARAM_RESOLVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/cancellation.h"
#include "framework/collective_request.h"
#include "framework/device.h"
#include "framework/params.h"

namespace tutti {

// Which execution of its instance a member's call is part of.
struct CallNumber {
  int64_t step_id = 0;
  uint64_t execution = 0;

  friend bool operator==(const CallNumber&, const CallNumber&) = default;
};

// Settles who takes part in a collective and what is done: first the group (its
// members and their ranks), then the instance (that all ask for the same, and
// which implementation runs). Both are settled once and remembered.
//
// Thread-safe. `done` runs exactly once, with no lock held, on the thread of
// the member that came last or of the one that cancels.
class ParamResolverInterface {
 public:
  using Done = absl::AnyInvocable<
      void(absl::StatusOr<std::shared_ptr<const CollectiveParams>>) &&>;

  virtual ~ParamResolverInterface() = default;

  // Joins `device` to the group and the instance of `request` and waits for
  // the others. A cancelled wait leaves nothing behind. Errors:
  // INVALID_ARGUMENT where members disagree, on all of them;
  // FAILED_PRECONDITION if a device comes back with another incarnation; the
  // reason of `cancellation`; that of EndGroup; that for which a member of
  // another process has given the execution up.
  virtual void CompleteParamsAsync(
      const DeviceAttributes& device,
      std::shared_ptr<const CollectiveRequest> request, CallNumber number,
      std::shared_ptr<Cancellation> cancellation, Done done) = 0;

  // An execution has failed here before its instance was settled for any member
  // of this process, or with its group: members of other processes are not to
  // wait for it, though they come later, in whichever generation. `beginning`
  // is that of the step whose execution it was: nothing happens if the step has
  // begun anew since. May be called again and again. For resolvers of one
  // process, whose members share the execution, there is nothing to do.
  virtual void GiveUp(InstanceId /*instance*/, CallNumber /*number*/,
                      uint64_t /*beginning*/, const absl::Status& /*reason*/) {}

  // The step begins here, perhaps anew, or is over; by turns. What is given up
  // in it is that of this time. Gives what GiveUp() knows this beginning by.
  // Calls nobody.
  virtual uint64_t BeginStep(int64_t /*step_id*/) { return 0; }
  virtual void EndStep(int64_t /*step_id*/) {}

  // Whom a member that asked so still waits for, for error messages: "group
  // phase: 1 of 4 members had joined (...)". Empty if it waits for nobody.
  virtual std::string DescribeWaiting(const CollectiveRequest& request) = 0;

  // Ends the present generation of a group: what waits or runs in it ends with
  // `reason`; the next member to come begins the next generation.
  virtual void EndGroup(GroupKey group_key, absl::Status reason) = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_PARAM_RESOLVER_H_
