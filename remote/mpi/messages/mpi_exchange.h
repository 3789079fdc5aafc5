#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_EXCHANGE_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_EXCHANGE_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "remote/mpi/messages/mpi_note.h"
#include "remote/mpi/messages/mpi_part.h"
#include "tutti/peer_access.h"

namespace tutti {

// Begins executions of two processes that need no MPI, because their inputs are
// so short. Each process sends its input to the other, and begins when it has
// both. Each merges them itself, in the order of ranks: both get the same bits.
//
//   input {execution}  --->
//                     <---   input {execution}      at the same time
//
//   or:  take back {execution}  --->
//                     <---   taken back {execution}, unless it has been used
//
// Neither message waits for the other, unlike messages to a leader
// (mpi_agreement.h). Among more than two processes, a leader takes fewer
// messages.
//
// An execution begins on both processes or on neither, unless one has called
// the other lost. A task uses an input as soon as it has a part for it and its
// own input was sent. It does so even if the part is withdrawn. Thus a task
// that gets no answer to "take back" gets the other's input, and begins. No
// withdrawn part waits for ever.
//
// No input stays for ever either. A part uses it, or its sender takes it back,
// or its sender is gone. A sender cannot end before. A sender that has called
// this task lost is gone when it ends.
//
// Pure except for its callbacks. For one thread, except for Awaited().
class MpiExchange {
 public:
  struct Options {
    int this_task = 0;

    // Sends a note. Notes to one task must stay in order.
    std::function<void(int task, const MpiNote& note)> send;
  };

  explicit MpiExchange(Options options) : options_(std::move(options)) {}

  // Adds a part, which waits to begin. Refuses it with ALREADY_EXISTS if
  // another part waits under its key. If the other task is gone, refuses it
  // with the reason of that. REQUIRES: the part is of two tasks, and carries
  // data.
  void Add(const MpiPartPtr& part) ABSL_LOCKS_EXCLUDED(mu_);

  // Refuses the part with `why`, if that is possible; else the part begins.
  void Withdraw(const ExecKey& key, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Handles a note; ignores notes of other protocols.
  void OnNote(int task, const MpiNote& note);

  // Ends the parts that wait for a lost task. If the task goes on, its "take
  // back" notes are still answered. The first reason stays.
  void OnGone(int task, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the keys of the waiting parts of this process.
  std::vector<ExecKey> Waiting() const ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the task for whose input the part of `key` waits; null if none
  // waits. On any thread.
  std::optional<int> Awaited(const ExecKey& key) const ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the number of inputs for which no part waits.
  size_t num_kept() const { return inputs_.size(); }

 private:
  struct Waiter {
    MpiPartPtr part;         // Null: there is none.
    absl::Status withdrawn;  // Reason; OK: not withdrawn.
  };

  bool is_first(const MpiPart& part) const {
    return part.tasks()[0] == options_.this_task;
  }
  int OtherOf(const MpiPart& part) const {
    return part.tasks()[is_first(part) ? 1 : 0];
  }
  Waiter Find(const ExecKey& key) const ABSL_LOCKS_EXCLUDED(mu_);
  MpiPartPtr Take(const ExecKey& key) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status WhyNot(const MpiPart& part) const;

  void OnInput(int task, const MpiNote& note) ABSL_LOCKS_EXCLUDED(mu_);
  void OnTakeBack(int task, const ExecKey& key);
  void OnTakenBack(int task, const ExecKey& key) ABSL_LOCKS_EXCLUDED(mu_);
  void Begin(MpiPart& part, absl::string_view input) const;

  const Options options_;
  absl::flat_hash_map<int, absl::Status> gone_;

  // Inputs for which no part waits. Keyed by sender too: only a part says which
  // sender it means.
  absl::flat_hash_map<std::pair<int, ExecKey>, std::string> inputs_;

  mutable Mutex mu_;
  absl::flat_hash_map<ExecKey, Waiter> parts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_EXCHANGE_H_
