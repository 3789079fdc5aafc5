#include "gpu/kernels/reduce_kernel-inl.h"
#include "tutti/tensor.h"

namespace tutti::gpu {

#define TUTTI_LAUNCH_Integer(Element)            \
  TUTTI_LAUNCH_REDUCE(WideFormat<Element>, Sum); \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Prod);    \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Min);     \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Max);     \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Band);    \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Bor);     \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Bxor);
#define TUTTI_LAUNCH_Floating(Element)
#define TUTTI_LAUNCH_Bool(Element)            \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Min);  \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Max);  \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Band); \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Bor);  \
  TUTTI_LAUNCH_REDUCE(Format<Element>, Bxor);
#define TUTTI_LAUNCH_Complex(Element)
#define TUTTI_LAUNCH_ALL(category, code, name, Element) \
  TUTTI_LAUNCH_##category(Element)

TUTTI_DTYPES(TUTTI_LAUNCH_ALL)

}  // namespace tutti::gpu
