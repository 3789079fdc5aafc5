#include "gpu/kernels/reduce_kernel-inl.h"

namespace tutti::gpu {

#define TUTTI_LAUNCH_ALL(Format)     \
  TUTTI_LAUNCH_REDUCE(Format, Sum);  \
  TUTTI_LAUNCH_REDUCE(Format, Prod); \
  TUTTI_LAUNCH_REDUCE(Format, Min);  \
  TUTTI_LAUNCH_REDUCE(Format, Max)

TUTTI_LAUNCH_ALL(Float16Format);
TUTTI_LAUNCH_ALL(BFloat16Format);
TUTTI_LAUNCH_ALL(PlainFormat<float>);
TUTTI_LAUNCH_ALL(PlainFormat<double>);

}  // namespace tutti::gpu
