#ifndef TUTTI_EXAMPLES_TRAIN_STEP_WATCH_H_
#define TUTTI_EXAMPLES_TRAIN_STEP_WATCH_H_

#include <cstdio>
#include <mutex>
#include <vector>

#include "absl/time/time.h"
#include "examples/train/step_outfeed.h"
#include "tutti/tutti.h"

namespace train {

// Shows what devices report while they train. On a terminal: a table with a
// line per device, its latest step, its loss and the norm of the gradient,
// painted anew at most ten times per second. Elsewhere, as in a file: a line
// per report, "device 3 step 17 loss 0.123456 gradient_norm 1.234567".
//
// Thread-safe. Writes to `out`, which outlives it.
class StepWatch {
 public:
  StepWatch(int num_devices, bool is_terminal, tutti::Clock* clock,
            std::FILE* out);

  void Add(int device, const StepReport& report);

  // Takes the table away until the next report, so that others may print.
  void Clear();

  // Shows the latest reports, for good: what others print comes below.
  void Finish();

 private:
  struct Row {
    int step = 0;  // Reports so far.
    StepReport latest;
  };

  // REQUIRE: the caller holds `mu_`.
  void Paint();
  void Erase();

  const bool is_terminal_;
  tutti::Clock* const clock_;
  std::FILE* const out_;

  // Guarded by `mu_`.
  std::mutex mu_;
  std::vector<Row> rows_;
  absl::Time next_paint_ = absl::InfinitePast();
  bool is_painted_ = false;
};

}  // namespace train

#endif  // TUTTI_EXAMPLES_TRAIN_STEP_WATCH_H_
