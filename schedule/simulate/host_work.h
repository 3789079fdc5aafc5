#ifndef TUTTI_SCHEDULE_SIMULATE_HOST_WORK_H_
#define TUTTI_SCHEDULE_SIMULATE_HOST_WORK_H_

#include <set>
#include <vector>

#include "absl/types/span.h"
#include "schedule/simulate/cluster_model.h"

namespace tutti {

// Simulates the processors of all hosts of a machine. Pieces of work run in the
// order in which they become ready. Each piece runs on the first free processor
// of its task's host. Times are picoseconds.
//
// Not thread-safe. Deterministic: if pieces become ready at the same time, the
// piece added first runs first.
class HostWork {
 public:
  // `is_inline`: pieces of one task run one after the other. REQUIRES: the host
  // has processors.
  HostWork(const Host& host, int num_tasks, bool is_inline);

  void Add(int task, double ready, double duration);

  // Runs all pieces added since the last call, after the pieces of earlier
  // calls. Returns the end of each piece, in the order of Add(); valid until
  // the next call.
  absl::Span<const double> Do();

  // Total time for which processors have worked.
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

  // By host: times at which its processors become free. Lists only processors
  // that have worked.
  std::vector<std::multiset<double>> free_;
  std::vector<double> thread_free_;  // By task; empty unless is_inline_.
  std::vector<Piece> pieces_;
  std::vector<double> ends_;
  double busy_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_HOST_WORK_H_
