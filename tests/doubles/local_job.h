#ifndef TUTTI_TESTS_DOUBLES_LOCAL_JOB_H_
#define TUTTI_TESTS_DOUBLES_LOCAL_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "resolvers/local/param_resolver_local.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/peer_access.h"

namespace tutti {

// Collectives among CPU devices of this process, without threads: work runs on
// the test's thread, in a call or when the test runs the environment's work.
class LocalJob {
 public:
  struct Options {
    int num_tasks = 1;
    int devices_per_task = 1;
    uint64_t seed = 1;
    std::function<std::unique_ptr<PeerAccessInterface>(int64_t step_id)>
        make_peer_access;
    ParamResolverLocal::Options resolver;
    std::optional<int64_t> past_caches_from_bytes;
  };

  // Arguments and result of one call, or of one preparation and its starts.
  struct Call {
    std::vector<float> input;
    Tensor output;
    std::shared_ptr<PreparedCollective> prepared;  // Set by Prepare().
    std::optional<absl::Status> status;            // Unset until `done`.
    int num_done = 0;

    bool pending() const { return num_done == 0; }
    std::vector<float> result() const;
    StatusCallback Done();  // Sets the status and counts.

    // Status of a call whose `done` ran once.
    friend absl::Status EndOf(const Call& call) {
      return call.num_done == 1 ? *call.status
                                : absl::UnknownError("not ended once");
    }
  };

  explicit LocalJob(Options options);
  LocalJob(const LocalJob&) = delete;
  LocalJob& operator=(const LocalJob&) = delete;

  // A float32 all-reduce of `num_elements` among all devices, for tests to
  // change.
  CollectiveRequest AllReduceRequest(int64_t num_elements,
                                     std::string implementation = "") const;

  // Alters the arguments of a call.
  using Change = std::function<void(CollectiveArgs&)>;

  // Calls for one device in the current step, with an input of the request's
  // shape that holds `device + 1` everywhere. The returned call keeps its
  // address.
  Call& Start(int device, const CollectiveRequest& request,
              const Change& change = nullptr);

  // Prepares the same call. The preparation's end counts as an end.
  Call& Prepare(int device, const CollectiveRequest& request,
                const Change& change = nullptr);

  // Calls for all devices. RunAll() and PrepareAll() also run all work.
  std::vector<Call*> StartAll(const CollectiveRequest& request,
                              const Change& change = nullptr);
  std::vector<Call*> RunAll(const CollectiveRequest& request,
                            const Change& change = nullptr);
  std::vector<Call*> PrepareAll(const CollectiveRequest& request,
                                const Change& change = nullptr);

  // Cleans up the current step; the first step is step 1.
  void BeginNextStep() { manager_->Cleanup(step_id_++); }

  SimulatedEnvironment& environment() { return environment_; }
  CollectiveExecutorMgr& manager() { return *manager_; }
  CollectiveExecutor& executor() { return *manager_->FindOrCreate(step_id_); }
  ParamResolverLocal& resolver() { return *resolver_; }
  const std::vector<Device*>& devices() const { return devices_->devices(); }

 private:
  using Begin = Call& (LocalJob::*)(int device, const CollectiveRequest&,
                                    const Change&);
  std::vector<Call*> OnAll(Begin begin, const CollectiveRequest& request,
                           const Change& change);
  CollectiveArgs Args(int device, const CollectiveRequest& request,
                      Call& call) const;

  SimulatedEnvironment environment_;
  const std::unique_ptr<DeviceManager> devices_;
  const std::shared_ptr<ParamResolverLocal> resolver_;
  std::vector<std::unique_ptr<Call>> calls_;
  int64_t step_id_ = 1;
  // Destroyed before the calls.
  std::unique_ptr<CollectiveExecutorMgr> manager_;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_DOUBLES_LOCAL_JOB_H_
