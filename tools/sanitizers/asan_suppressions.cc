// Two leaks of the packaged libraries; Tutti does not allocate by these
// functions. gRPC 1.51 frees the buffer into which it reads a connection's TLS
// handshake, but not the larger array to which the buffer grows after many
// reads. When the process ends, OpenSSL 3.0 loses the data of threads that
// still run, such as gRPC's.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:gpr_realloc\n"
         "leak:CRYPTO_zalloc\n";
}

// Otherwise each exit lists the suppressed leaks.
extern "C" const char* __lsan_default_options() {
  return "print_suppressions=0";
}
