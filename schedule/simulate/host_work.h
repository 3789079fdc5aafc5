#ifndef TUTTI_SCHEDULE_SIMULATE_HOST_WORK_H_
#define TUTTI_SCHEDULE_SIMULATE_HOST_WORK_H_

#include <set>
#include <vector>

#include "absl/types/span.h"
#include "schedule/simulate/cluster_model.h"

namespace tutti {

// The processors of all hosts of a machine at work, for a simulation: pieces
// are done in the order in which they are ready, each by one processor of the
// host of its task, the first that is free. Times are picoseconds.
//
// Not thread-safe. Deterministic: of pieces that are ready at once, the one
// that was added first goes first.
class HostWork {
 public:
  // `is_inline`: the pieces of a task also wait for each other.
  // REQUIRES: the host has processors.
  HostWork(const Host& host, int num_tasks, bool is_inline);

  void Add(int task, double ready, double duration);

  // Does all that was added since the last time, after what was done before.
  // When each piece ends, in the order in which they were added; until the next
  // call.
  absl::Span<const double> Do();

  // That processors worked, in all.
  double busy() const { return busy_; }

 private:
  struct Piece {
    int host;
    int task;
    double ready;
    size_t index;
    double duration;
  };

  double DoOne(const Piece& piece);

  const Host host_;
  const bool is_inline_;

  // By host: when those processors are free that have worked yet.
  std::vector<std::multiset<double>> free_;
  std::vector<double> thread_free_;  // By task, if pieces wait for each other.
  std::vector<Piece> pieces_;
  std::vector<double> ends_;
  double busy_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_HOST_WORK_H_
