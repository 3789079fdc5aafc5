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

// Executions of two processes that need no MPI, as their inputs are so short:
// each sends its own to the other, and begins when it has both, which it merges
// itself, in the order of ranks, so that both get the same bits.
//
//   input {execution}  --->
//                     <---   input {execution}      at the same time
//
//   or:  take back {execution}  --->
//                     <---   taken back {execution}, unless it has been used
//
// So neither message waits for the other, as they do where one process leads
// (mpi_agreement.h). Among more than two, that takes fewer messages.
//
// An execution begins on both or on neither, but where one has called the other
// lost: an input is used as soon as there is a part for it, withdrawn or not,
// whose own input was sent before. So who hears nothing of what it takes back
// hears the other's input, and begins. Thus nobody waits for ever that has
// withdrawn. Nor is an input kept for ever: a part uses it, or its sender takes
// it back, as it cannot end otherwise, or is gone; one that has called this
// task lost is gone when it ends.
//
// Pure but for what it calls. For one thread, but for Awaited().
class MpiExchange {
 public:
  struct Options {
    int this_task = 0;

    // In order.
    std::function<void(int task, const MpiNote& note)> send;
  };

  explicit MpiExchange(Options options) : options_(std::move(options)) {}

  // The part waits to begin. Refused with ALREADY_EXISTS if one waits under its
  // key; if the other task is gone, with why. REQUIRES: it is of two tasks, and
  // carries something.
  void Add(const MpiPartPtr& part) ABSL_LOCKS_EXCLUDED(mu_);

  // Has the part refused with `why`, if it can; else it begins.
  void Withdraw(const ExecKey& key, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Leaves out those that concern others.
  void OnNote(int task, const MpiNote& note);

  // The task is lost: what waits for it ends. Should it go on, what it
  // withdraws is answered. The first reason stays.
  void OnGone(int task, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);

  // Parts of this process that wait.
  std::vector<ExecKey> Waiting() const ABSL_LOCKS_EXCLUDED(mu_);

  // The task for whose input the part of `key` waits. Null: none waits. On any
  // thread.
  std::optional<int> Awaited(const ExecKey& key) const ABSL_LOCKS_EXCLUDED(mu_);

  // Inputs for which no part waits.
  size_t num_kept() const { return inputs_.size(); }

 private:
  struct Waiter {
    MpiPartPtr part;         // Null: there is none.
    absl::Status withdrawn;  // Why; OK: it is not.
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

  // For which no part waits; by their senders, too, as only a part says which
  // one is meant.
  absl::flat_hash_map<std::pair<int, ExecKey>, std::string> inputs_;

  mutable Mutex mu_;
  absl::flat_hash_map<ExecKey, Waiter> parts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_EXCHANGE_H_
