#ifndef TUTTI_GPU_TESTING_FAKE_GPU_QUEUES_H_
#define TUTTI_GPU_TESTING_FAKE_GPU_QUEUES_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "gpu/testing/fake_gpu_memory.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Streams, events and memory behind a FakeGpuRuntime, which documents their
// behaviour. Thread-safe. Owned by the runtime and by the works that run a
// stream.
class FakeGpuQueues : public std::enable_shared_from_this<FakeGpuQueues> {
 public:
  // Runs with the lock held. An error spoils the GPU, and is a mistake unless
  // the test requested it.
  using Operation = absl::AnyInvocable<absl::Status(FakeGpuMemory& memory) &&>;

  // `keeps_host_calls`: only End() fails the host calls of spoilt GPUs.
  FakeGpuQueues(int num_gpus, bool keeps_host_calls,
                const Environment& environment)
      : environment_(environment),
        keeps_host_calls_(keeps_host_calls),
        spoilt_(num_gpus) {}
  FakeGpuQueues(const FakeGpuQueues&) = delete;
  FakeGpuQueues& operator=(const FakeGpuQueues&) = delete;

  // Begins every call. Returns its injected fault, or the reason why it cannot
  // be made. `call` is a number for faults. An error that spoilt the GPU now
  // also reaches its host calls; with CUDA it does not come sooner either.
  absl::Status Begin(int call, absl::string_view name, int gpu)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Checks calls that fail for no other reason.
  absl::Status CheckMayCall(absl::string_view name) ABSL_LOCKS_EXCLUDED(mu_);

  void FailCall(int call, int num_good, absl::Status status, int num_bad)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Number of Begin() calls with this number.
  int64_t NumCalls(int call) ABSL_LOCKS_EXCLUDED(mu_);

  // Counts destroyed streams that still have items, too.
  int NumStreams() ABSL_LOCKS_EXCLUDED(mu_);

  GpuStream CreateStream(int gpu) ABSL_LOCKS_EXCLUDED(mu_);
  GpuEvent CreateEvent(int gpu) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status DestroyStream(GpuStream stream) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status DestroyEvent(GpuEvent event) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status Record(GpuEvent event, GpuStream stream)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Wait(GpuStream stream, GpuEvent event) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<bool> IsDone(GpuEvent event) ABSL_LOCKS_EXCLUDED(mu_);

  // Error of a call for `gpu` that uses an event or memory of `peer`.
  absl::Status CheckPeer(absl::string_view name, int gpu, int peer)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Error that spoilt the GPU, even if no call has found it yet.
  absl::Status FirstError(int gpu) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status Put(GpuStream stream, Operation operation)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status PutFault(GpuStream stream, absl::Status status)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Stops the stream until `gate` is true. Wake() checks the gates.
  using Gate = std::shared_ptr<const std::atomic<bool>>;
  absl::Status PutGate(GpuStream stream, Gate gate) ABSL_LOCKS_EXCLUDED(mu_);
  void Wake() ABSL_LOCKS_EXCLUDED(mu_) { ScheduleTurn(); }

  // Calls `call` once: with OK, or with an error if this call returns one,
  // Begin() finds the GPU spoilt, or End() comes first.
  absl::Status PutHostCall(GpuStream stream, StatusCallback call)
      ABSL_LOCKS_EXCLUDED(mu_);
  void End() ABSL_LOCKS_EXCLUDED(mu_);

  // Calls `function` with the lock held.
  void WithMemory(absl::FunctionRef<void(FakeGpuMemory& memory)> function)
      ABSL_LOCKS_EXCLUDED(mu_);

  void AddMistake(std::string mistake) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<std::string> Mistakes() ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<std::string> Leaks() ABSL_LOCKS_EXCLUDED(mu_);
  int NumEvents() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Marker {
    bool is_done = false;
  };
  // An entry of a stream: the first member that is set, else `fault`.
  struct Item {
    Operation operation;
    StatusCallback host_call;
    std::shared_ptr<Marker> waits_for;
    Gate gate;
    absl::Status fault;
  };
  struct Stream {
    int gpu = 0;
    std::deque<Item> items;
    bool is_with_host = false;  // A host call runs.
    bool is_destroyed = false;  // Erased once it is empty.
  };
  struct Event {
    int gpu = 0;
    std::shared_ptr<Marker> last;  // Null before the first record.
  };
  struct Fault {
    int num_good = 0;
    int num_bad = 1;
    absl::Status status;
  };

  absl::Status CheckCall(int call, absl::string_view name, int gpu)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Stream*> Find(GpuStream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Event*> Find(GpuEvent event)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Moves from `item` if it returns OK.
  absl::Status Add(GpuStream stream, Item& item) ABSL_LOCKS_EXCLUDED(mu_);

  // Erases destroyed streams without items.
  void EraseEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  static bool CanGoOn(const Stream& stream);
  std::vector<Stream*> Runnable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Runs an item of a runnable stream, if any.
  void Turn() ABSL_LOCKS_EXCLUDED(mu_);
  std::optional<Item> TakeHostCallOrRun(Stream& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ScheduleTurn() ABSL_LOCKS_EXCLUDED(mu_);

  // Takes the items of the GPU's streams: host calls wait for their error. The
  // rest waits for destruction without the lock.
  void Spoil(int gpu, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Destroy() ABSL_LOCKS_EXCLUDED(mu_);

  const Environment environment_;
  const bool keeps_host_calls_;

  Mutex mu_;
  std::vector<absl::Status> spoilt_ ABSL_GUARDED_BY(mu_);  // Indexed by GPU.
  std::map<int, std::vector<StatusCallback>> unreported_ ABSL_GUARDED_BY(mu_);
  FakeGpuMemory memory_ ABSL_GUARDED_BY(mu_);
  uintptr_t last_handle_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uintptr_t, Stream> streams_ ABSL_GUARDED_BY(mu_);
  std::map<uintptr_t, Event> events_ ABSL_GUARDED_BY(mu_);
  std::map<int, Fault> faults_ ABSL_GUARDED_BY(mu_);
  std::map<int, int64_t> num_calls_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> mistakes_ ABSL_GUARDED_BY(mu_);
  std::vector<Item> dropped_ ABSL_GUARDED_BY(mu_);
  bool has_turn_ ABSL_GUARDED_BY(mu_) = false;  // A turn is scheduled.
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_GPU_QUEUES_H_
