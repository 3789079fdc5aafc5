#ifndef TUTTI_NAMED_TENSORS_RUNS_IN_ORDER_H_
#define TUTTI_NAMED_TENSORS_RUNS_IN_ORDER_H_

#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "framework/base/mutex.h"

namespace tutti {

// Runs functions one after the other, in the order of Add(). Each begins when
// its predecessor has ended.
//
// Thread-safe. A run begins inside Add() or where its predecessor ends, with no
// lock held, and never inside the beginning of another run. The object stays
// alive until all added runs have ended.
class RunsInOrder : public std::enable_shared_from_this<RunsInOrder> {
 public:
  // Begins the run. Calls `ended` once, inside the call or later.
  using Run = absl::AnyInvocable<void(absl::AnyInvocable<void() &&> ended) &&>;

  void Add(Run run) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void BeginAll() ABSL_LOCKS_EXCLUDED(mu_);
  Run TakeNext() ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  std::deque<Run> waiting_ ABSL_GUARDED_BY(mu_);
  bool one_runs_ ABSL_GUARDED_BY(mu_) = false;
  bool is_beginning_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_RUNS_IN_ORDER_H_
