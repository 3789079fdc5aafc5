#include "tools/launch/quiet_grpc.h"

#include "grpc/support/log.h"

namespace tutti {

void SilenceGrpc(const Variables& variables) {
  if (variables("GRPC_VERBOSITY").has_value()) return;
  gpr_set_log_function([](gpr_log_func_args* /*line*/) {});
}

}  // namespace tutti
