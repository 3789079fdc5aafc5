#ifndef TUTTI_REMOTE_GRPC_CONNECTION_OPENSSL_AT_EXIT_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_OPENSSL_AT_EXIT_H_

#include "openssl/crypto.h"

namespace tutti {

// Stops OpenSSL from cleaning up at process exit. Call before any other
// function of OpenSSL. Its exit handler destroys its locks while threads of
// gRPC may still connect: processes were seen to end by a signal there.
inline void KeepOpenSslAtExit() {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
}

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_OPENSSL_AT_EXIT_H_
