#ifndef TUTTI_EXAMPLES_TRAIN_STEP_WATCH_H_
#define TUTTI_EXAMPLES_TRAIN_STEP_WATCH_H_

#include <cstdio>
#include <mutex>
#include <vector>

#include "absl/time/time.h"
#include "examples/train/step_outfeed.h"
#include "tutti/tutti.h"

namespace train {

// Shows the reports of devices while they train. On a terminal: a table with a
// line per device with its latest step, its loss and the norm of its gradient,
// repainted at most ten times per second. Elsewhere, as in a file: a line per
// report, "device 3 step 17 loss 0.123456 gradient_norm 1.234567".
//
// Thread-safe. Writes to `out`, which outlives the object.
class StepWatch {
 public:
  StepWatch(int num_devices, bool is_terminal, tutti::Clock* clock,
            std::FILE* out);

  void Add(int device, const StepReport& report);

  // Removes the table until the next report, so that others may print.
  void Clear();

  // Shows the latest reports and keeps them; later output comes below them.
  void Finish();

 private:
  struct Row {
    int step = 0;  // Reports so far.
    StepReport latest;
  };

  // REQUIRES: the caller holds `mu_`.
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
