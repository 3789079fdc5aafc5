#ifndef TUTTI_REMOTE_GRPC_CONNECTION_OPENSSL_AT_EXIT_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_OPENSSL_AT_EXIT_H_

#include "openssl/crypto.h"

namespace tutti {

// Before anything else of OpenSSL's: keeps it as it is while the process exits.
// Its own handler at exit takes its locks away, while threads of gRPC may still
// connect: processes were seen to end by a signal there.
inline void KeepOpenSslAtExit() {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
}

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_OPENSSL_AT_EXIT_H_
