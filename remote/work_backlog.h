#ifndef TUTTI_REMOTE_WORK_BACKLOG_H_
#define TUTTI_REMOTE_WORK_BACKLOG_H_

#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"

namespace tutti {

// Work of a queue whose end can be waited for, though the queue may not run
// until later: what has not begun then runs at once. Thread-safe; the queue
// outlives the work.
class WorkBacklog {
 public:
  explicit WorkBacklog(WorkQueue* queue) : queue_(queue) {}
  WorkBacklog(const WorkBacklog&) = delete;
  WorkBacklog& operator=(const WorkBacklog&) = delete;

  // Runs `work` once, later; never inside this call.
  void Add(Work work);

  // Runs what has not begun, and what that adds, and blocks until all has
  // ended. Not inside work of this.
  void Drain();

 private:
  // Which the queue may keep longer than the owner.
  struct State {
    // False if there is none left.
    bool RunOne() ABSL_LOCKS_EXCLUDED(mu);

    Mutex mu;
    CondVar ended;
    std::deque<Work> waiting ABSL_GUARDED_BY(mu);
    int num_running ABSL_GUARDED_BY(mu) = 0;
  };

  WorkQueue* const queue_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_WORK_BACKLOG_H_
