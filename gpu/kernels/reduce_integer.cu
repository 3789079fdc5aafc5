#include "gpu/kernels/reduce_kernel-inl.h"

namespace tutti::gpu {

#define TUTTI_LAUNCH_ALL(Format)     \
  TUTTI_LAUNCH_REDUCE(Format, Sum);  \
  TUTTI_LAUNCH_REDUCE(Format, Prod); \
  TUTTI_LAUNCH_REDUCE(Format, Min);  \
  TUTTI_LAUNCH_REDUCE(Format, Max);  \
  TUTTI_LAUNCH_REDUCE(Format, Band); \
  TUTTI_LAUNCH_REDUCE(Format, Bor);  \
  TUTTI_LAUNCH_REDUCE(Format, Bxor)

TUTTI_LAUNCH_ALL(PlainFormat<int8_t>);
TUTTI_LAUNCH_ALL(PlainFormat<uint8_t>);
TUTTI_LAUNCH_ALL(PlainFormat<int32_t>);
TUTTI_LAUNCH_ALL(PlainFormat<int64_t>);

}  // namespace tutti::gpu
