#include "implementations/two_level/local_then.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

REGISTER_COLLECTIVE(
    LocalThenMpi,
    LocalThenDelegateFactory(
        "MPI", "one pass within each process, MPI_Iallreduce between them"));

}  // namespace
}  // namespace tutti
