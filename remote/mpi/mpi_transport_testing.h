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

// How the processes of a job take part in it: see mpi_transport_test_rank.cc.
struct MpiTestMode {
  bool shares_memory = true;
  bool is_funneled = false;
  bool is_cuda_aware = false;
  bool is_closed = false;  // The job.
  bool is_mute = false;
};

// Brings up this process's MPI, of which there is one. False if that fails.
bool StartMpi(const MpiTestMode& mode);

// Leaves nothing of it that could be used.
void EndMpi();

// Between these.
MpiRuntime& Mpi();
const MpiTestMode& Mode();
bool IsUnwilling(int rank);  // To read memory and to have its own read.

// Of the tests; with threads.
const Environment& Machine();

BufKey KeyOf(int tag);
std::vector<std::byte> Pattern(size_t num_bytes, int seed);
proto::ControlRequest StepRequest(int64_t step);

// A transport on every process. Answers a call for a step above 0 by that
// number and its caller's; fails one for a step below; and keeps one for step 0
// until it, too, meets the others.
class MpiTransportTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  int rank() const { return cluster_.this_task; }
  int size() const { return cluster_.num_tasks(); }
  int next() const { return (rank() + 1) % size(); }

  // Returns when all processes have called it. Whoever has shut down since then
  // has called it, too.
  void Meet();

  // Asks `task` for what it provides under `tag`.
  void Request(int task, int tag, Borrower& borrower, size_t num_bytes);

  // The same for bytes that may come to where they go.
  void RequestInto(int task, int tag, WaitingBorrower& borrower);

  // Blocks until `work` has run there.
  static void OnMpiThread(const std::function<void()>& work);

  // Whether this process reads `task`'s memory, as far as the runtime knows.
  static bool Reads(int task);

 private:
  void Answer(const ControlCaller& caller, int64_t step, ControlDone done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Those who wait for meetings that have been.
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
  std::shared_ptr<Transport> transport_;  // Ends before what it calls.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_TRANSPORT_TESTING_H_
