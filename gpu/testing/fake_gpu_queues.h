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

// The streams, events and memory behind a FakeGpuRuntime, which says how they
// behave. Thread-safe. Held by the runtime and by the work that runs a stream.
class FakeGpuQueues : public std::enable_shared_from_this<FakeGpuQueues> {
 public:
  // Runs with the lock held; an error spoils the GPU, and is a mistake unless
  // it was asked for.
  using Operation = absl::AnyInvocable<absl::Status(FakeGpuMemory& memory) &&>;

  // `keeps_host_calls`: those of spoilt GPUs are told by End().
  FakeGpuQueues(int num_gpus, bool keeps_host_calls,
                const Environment& environment)
      : environment_(environment),
        keeps_host_calls_(keeps_host_calls),
        spoilt_(num_gpus) {}
  FakeGpuQueues(const FakeGpuQueues&) = delete;
  FakeGpuQueues& operator=(const FakeGpuQueues&) = delete;

  // The first thing of every call: its injected fault, or why it cannot be
  // made. `call` is a number that only faults know. An error that spoilt the
  // GPU goes to its host calls too: as with CUDA, no sooner.
  absl::Status Begin(int call, absl::string_view name, int gpu)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Of calls that fail for no other reason.
  absl::Status CheckMayCall(absl::string_view name) ABSL_LOCKS_EXCLUDED(mu_);

  void FailCall(int call, int num_good, absl::Status status, int num_bad)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Of Begin() with this number.
  int64_t NumCalls(int call) ABSL_LOCKS_EXCLUDED(mu_);

  // With those that are destroyed and still hold something.
  int NumStreams() ABSL_LOCKS_EXCLUDED(mu_);

  GpuStream CreateStream(int gpu) ABSL_LOCKS_EXCLUDED(mu_);
  GpuEvent CreateEvent(int gpu) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status DestroyStream(GpuStream stream) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status DestroyEvent(GpuEvent event) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status Record(GpuEvent event, GpuStream stream)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Wait(GpuStream stream, GpuEvent event) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<bool> IsDone(GpuEvent event) ABSL_LOCKS_EXCLUDED(mu_);

  // What a call for `gpu` returns because of what it uses of `peer`.
  absl::Status CheckPeer(absl::string_view name, int gpu, int peer)
      ABSL_LOCKS_EXCLUDED(mu_);

  // What spoilt the GPU, whether or not a call has found it yet.
  absl::Status FirstError(int gpu) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status Put(GpuStream stream, Operation operation)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status PutFault(GpuStream stream, absl::Status status)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The stream goes on once `gate` is true; Wake() has it looked at.
  using Gate = std::shared_ptr<const std::atomic<bool>>;
  absl::Status PutGate(GpuStream stream, Gate gate) ABSL_LOCKS_EXCLUDED(mu_);
  void Wake() ABSL_LOCKS_EXCLUDED(mu_) { ScheduleTurn(); }

  // Calls `call` once, with an error if this returns one or Begin() finds the
  // GPU spoilt or End() comes first.
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
  struct Item {
    Operation operation;                // If set, else
    StatusCallback host_call;           // if set, else
    std::shared_ptr<Marker> waits_for;  // if set, else
    Gate gate;                          // if set, else
    absl::Status fault;                 // this.
  };
  struct Stream {
    int gpu = 0;
    std::deque<Item> items;
    bool is_with_host = false;  // While a host call runs.
    bool is_destroyed = false;  // It goes once it holds nothing.
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

  // Takes the item if it returns OK.
  absl::Status Add(GpuStream stream, Item& item) ABSL_LOCKS_EXCLUDED(mu_);

  // Lets go of the streams that are destroyed and hold nothing.
  void EraseEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  static bool CanGoOn(const Stream& stream);
  std::vector<Stream*> Runnable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // One item of one of the streams that can go on, or none.
  void Turn() ABSL_LOCKS_EXCLUDED(mu_);
  std::optional<Item> TakeHostCallOrRun(Stream& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ScheduleTurn() ABSL_LOCKS_EXCLUDED(mu_);

  // Takes what the GPU's streams hold: host calls wait to be told, the rest is
  // to be destroyed without the lock.
  void Spoil(int gpu, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Destroy() ABSL_LOCKS_EXCLUDED(mu_);

  const Environment environment_;
  const bool keeps_host_calls_;

  Mutex mu_;
  std::vector<absl::Status> spoilt_ ABSL_GUARDED_BY(mu_);  // By GPU.
  std::map<int, std::vector<StatusCallback>> untold_ ABSL_GUARDED_BY(mu_);
  FakeGpuMemory memory_ ABSL_GUARDED_BY(mu_);
  uintptr_t last_handle_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uintptr_t, Stream> streams_ ABSL_GUARDED_BY(mu_);
  std::map<uintptr_t, Event> events_ ABSL_GUARDED_BY(mu_);
  std::map<int, Fault> faults_ ABSL_GUARDED_BY(mu_);
  std::map<int, int64_t> num_calls_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> mistakes_ ABSL_GUARDED_BY(mu_);
  std::vector<Item> dropped_ ABSL_GUARDED_BY(mu_);
  bool has_turn_ ABSL_GUARDED_BY(mu_) = false;  // Is scheduled.
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_GPU_QUEUES_H_
