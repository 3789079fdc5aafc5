#ifndef TUTTI_TOOLS_CLUSTER_PARTY_H_
#define TUTTI_TOOLS_CLUSTER_PARTY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/local_runtime.h"
#include "tutti/reduction.h"
#include "tutti/selection.h"

namespace tutti {

// The ranks on which a command runs collectives, of which this process has
// some: all of them, or those of one task of a cluster, whose other tasks run
// the same command on theirs. Each process has consecutive ranks, device i the
// rank first_rank() + i.
//
// For one thread, which may block. Of the operations that all tasks take part
// in, each task calls the same ones in the same order.
class Party {
 public:
  virtual ~Party() = default;

  virtual int num_ranks() const = 0;
  virtual int first_rank() const = 0;
  virtual const std::vector<Device*>& devices() const = 0;
  virtual CollectiveExecutorMgr& manager() = 0;

  // By what this process chooses algorithms for the ranks, where it leads them:
  // in a cluster, task 0.
  virtual SelectionPolicy policy() const = 0;

  // Whether this process prints what the command came to.
  virtual bool reports() const = 0;

  // Returns on all tasks at about the same time. Errors: those of a collective.
  virtual absl::Status Align() = 0;

  // OK on all tasks if it is on all; else `mine` where that is an error, and
  // elsewhere the error of a task, which it names.
  virtual absl::Status Agree(const absl::Status& mine) = 0;

  // Replaces each number by what those of all tasks come to. Errors: those of a
  // collective.
  virtual absl::Status Combine(ReductionKind kind,
                               absl::Span<int64_t> numbers) = 0;

  // The command is done with its collectives, which came to `outcome`; call it
  // once, last. Waits until the other tasks are done too, not long if it is an
  // error. Errors: the outcome; a task that did not end.
  virtual absl::Status Leave(const absl::Status& outcome) = 0;

  int num_local() const { return static_cast<int>(devices().size()); }
};

// Makes the party for so many ranks, which `num_tasks` divides.
using PartyFactory = std::function<absl::StatusOr<std::unique_ptr<Party>>(
    int num_ranks, int num_tasks)>;

// All ranks are CPU devices of this process; tasks are only a matter of their
// names. `environment`'s parts outlive the party; `rules` may be null.
PartyFactory LocalParty(const Environment& environment,
                        std::shared_ptr<const SelectionRules> rules = nullptr);

// Runs one collective call on each device of the party, in step `step_id`, and
// waits; calls[i] is that of device i. OK if all are, else the first that is
// not.
absl::Status RunCalls(Party* party, int64_t step_id,
                      absl::Span<CollectiveArgs> calls);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_PARTY_H_
