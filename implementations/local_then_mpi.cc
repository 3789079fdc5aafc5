#include "framework/registry.h"
#include "implementations/local_then_delegate.h"

namespace tutti {
namespace {

class LocalThenMpi final : public LocalThenDelegate {
 public:
  LocalThenMpi() : LocalThenDelegate("MPI") {}
};

// MPI only recommends that results do not change from run to run. Not priced:
// runs only when named.
REGISTER_COLLECTIVE(
    LocalThenMpi,
    Implemented<LocalThenMpi>(
        {.summary = "one pass within each process, MPI_Iallreduce between them",
         .collectives = {CollectiveType::kAllReduce},
         .device_types = {"CPU"},
         .delegate = "MPI",
         .delegates_between_processes = true,
         .determinism = Determinism::kNotGuaranteed}));

}  // namespace
}  // namespace tutti
