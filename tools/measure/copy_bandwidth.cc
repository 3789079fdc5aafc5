#include "tools/measure/copy_bandwidth.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/base/status_macros.h"
#include "tools/measure/parallel_for.h"
#include "tools/measure/stream_copy.h"

namespace tutti {

absl::StatusOr<CopyBandwidth> CopyBandwidth::Create(
    const Environment& environment, int num_workers) {
  const TensorShape shape = TensorShape::Vector(kBufferBytes);
  ASSIGN_OR_RETURN(Tensor from, Tensor::Allocate(DType::kUint8, shape));
  ASSIGN_OR_RETURN(Tensor into, Tensor::Allocate(DType::kUint8, shape));
  // Touches all pages: memory is allocated at the first write.
  std::memset(from.mutable_data(), 1, from.size_bytes());
  std::memset(into.mutable_data(), 0, into.size_bytes());
  return CopyBandwidth(environment, num_workers, std::move(from),
                       std::move(into));
}

CopyBandwidth::CopyBandwidth(const Environment& environment, int num_workers,
                             Tensor from, Tensor into)
    : environment_(environment),
      num_workers_(num_workers),
      from_(std::move(from)),
      into_(std::move(into)) {}

void CopyBandwidth::Measure(int num_copies) {
  for (int i = 0; i < num_copies; ++i) {
    best_ = std::max(best_, 2 * static_cast<double>(kBufferBytes) /
                                absl::ToDoubleSeconds(TimeOneCopy()));
  }
}

absl::Duration CopyBandwidth::TimeOneCopy() {
  const absl::Time start = environment_.clock->Now();
  ParallelFor(environment_.queue, num_workers_, [&](int worker) {
    const int64_t begin = kBufferBytes * worker / num_workers_;
    const int64_t end = kBufferBytes * (worker + 1) / num_workers_;
    StreamCopy(into_.mutable_data() + begin, from_.data() + begin,
               static_cast<size_t>(end - begin));
  });
  return environment_.clock->Now() - start;
}

}  // namespace tutti
