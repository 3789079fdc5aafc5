#ifndef TUTTI_TOOLS_MEASURE_COPY_BANDWIDTH_H_
#define TUTTI_TOOLS_MEASURE_COPY_BANDWIDTH_H_

#include "absl/status/statusor.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {

// How fast this machine's memory is, by the plainest measure there is: a copy
// with non-temporal stores, from and to buffers too large for caches, each
// worker its part.
class CopyBandwidth {
 public:
  // `environment`'s parts outlive the object. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<CopyBandwidth> Create(const Environment& environment,
                                              int num_workers);

  // Copies so often; a copy takes some 20 ms.
  void Measure(int num_copies);

  // Of the fastest copy so far: bytes per second, those read and those written.
  // 0 before the first.
  double best() const { return best_; }

  static constexpr int64_t kBufferBytes = int64_t{128} << 20;

 private:
  CopyBandwidth(const Environment& environment, int num_workers, Tensor from,
                Tensor into);

  absl::Duration TimeOneCopy();

  Environment environment_;
  int num_workers_;
  Tensor from_;
  Tensor into_;
  double best_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_COPY_BANDWIDTH_H_
