#ifndef TUTTI_TOOLS_MEASURE_COPY_BANDWIDTH_H_
#define TUTTI_TOOLS_MEASURE_COPY_BANDWIDTH_H_

#include "absl/status/statusor.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {

// Measures this machine's memory bandwidth by copying with non-temporal stores
// between buffers too large for caches; each worker copies a part.
class CopyBandwidth {
 public:
  // `environment`'s parts outlive the object. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<CopyBandwidth> Create(const Environment& environment,
                                              int num_workers);

  // Makes `num_copies` copies, of about 20 ms each.
  void Measure(int num_copies);

  // Bandwidth of the fastest copy until now, in bytes per second, counting both
  // bytes read and bytes written. 0 before the first copy.
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
