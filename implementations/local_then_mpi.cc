#include "framework/registry.h"
#include "implementations/local_then.h"

namespace tutti {
namespace {

// Not priced: runs only when named.
REGISTER_COLLECTIVE(
    LocalThenMpi,
    LocalThenDelegateFactory(
        "MPI", "one pass within each process, MPI_Iallreduce between them"));

}  // namespace
}  // namespace tutti
