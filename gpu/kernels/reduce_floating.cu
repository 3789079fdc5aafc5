#include "gpu/kernels/reduce_kernel-inl.h"
#include "tutti/tensor.h"

namespace tutti::gpu {

#define TUTTI_LAUNCH_Floating(Element)        \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Sum);  \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Prod); \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Min);  \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Max);
#define TUTTI_LAUNCH_Integer(Element)
#define TUTTI_LAUNCH_Bool(Element)
#define TUTTI_LAUNCH_Complex(Element)        \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Sum); \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Prod);
#define TUTTI_LAUNCH_ALL(category, code, name, Element) \
  TUTTI_LAUNCH_##category(Element)

TUTTI_DTYPES(TUTTI_LAUNCH_ALL)

}  // namespace tutti::gpu
