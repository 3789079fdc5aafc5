#ifndef TUTTI_REMOTE_MPI_MPI_TRANSPORT_TESTING_H_
#define TUTTI_REMOTE_MPI_MPI_TRANSPORT_TESTING_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "proto/control.pb.h"
#include "remote/fake_services.h"
#include "remote/transport.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/mpi_transport.h"
#include "tutti/peer_access.h"

namespace tutti {

// Modes of a job's processes; see mpi_transport_test_rank.cc.
struct MpiTestMode {
  bool shares_memory = true;
  bool is_funneled = false;
  bool is_cuda_aware = false;
  bool is_closed = false;  // Closed job.
  bool is_mute = false;
};

// Starts the MPI of this process; there is only one. Returns false if that
// fails.
bool StartMpi(const MpiTestMode& mode);

// Ends MPI; nothing of it can be used afterwards.
void EndMpi();

// Call between StartMpi() and EndMpi().
MpiRuntime& Mpi();
const MpiTestMode& Mode();
bool IsUnwilling(int rank);  // Returns true if the rank neither reads memory
                             // nor lets others read its own.

// Environment of the tests, with threads.
const Environment& Machine();

BufKey KeyOf(int tag);
std::vector<std::byte> Pattern(size_t num_bytes, int seed);
proto::ControlRequest StepRequest(int64_t step);

// Fixture with a transport on every process. Its control service answers a call
// for a step above 0 with that number and its caller. It fails a call for a
// step below 0. It keeps a call for step 0 until this process, too, meets the
// others.
class MpiTransportTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  int rank() const { return cluster_.this_task; }
  int size() const { return cluster_.num_tasks(); }
  int next() const { return (rank() + 1) % size(); }

  // Returns when all processes have called it. A process that has shut down
  // since then has called it too.
  void Meet();

  // Requests the bytes that `task` offers under `tag`.
  void Request(int task, int tag, Receiver& receiver, size_t num_bytes);

  // Same as Request(), for bytes that may land directly in place.
  void RequestInto(int task, int tag, WaitingReceiver& receiver);

  // Blocks until `work` has run on MPI's thread.
  static void OnMpiThread(const std::function<void()>& work);

  // Returns whether this process reads `task`'s memory, as far as the runtime
  // knows.
  static bool Reads(int task);

 private:
  void Answer(const ControlCaller& caller, int64_t step, ControlDone done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Answers the calls that wait for past meetings.
  void AnswerUntil(int64_t last_meeting) ABSL_LOCKS_EXCLUDED(mu_);

  ClusterSpec cluster_;
  int64_t num_meetings_ = 0;

  Mutex mu_;
  int64_t answered_until_ ABSL_GUARDED_BY(mu_) = 0;
  std::multimap<int64_t, ControlDone> waiting_ ABSL_GUARDED_BY(mu_);

  FunctionService control_{
      [this](const ControlCaller& caller, const proto::ControlRequest& request,
             std::shared_ptr<Cancellation> /*withdrawn*/, ControlDone done) {
        EXPECT_EQ(caller.incarnation, 100 + static_cast<uint64_t>(caller.task));
        Answer(caller, request.cleanup_step().step(), std::move(done));
      }};

 protected:
  TableService table_;
  std::shared_ptr<Transport> transport_;  // Ends before its services.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_TRANSPORT_TESTING_H_
