// Two things that the packaged libraries do not free; nothing of ours allocates
// by these functions. gRPC 1.51 frees the buffer that a connection's TLS
// handshake is read into, but not the array that the buffer grows to if it
// takes many reads. OpenSSL 3.0 forgets, as the process ends, what belongs to
// threads that go on, as those of gRPC do.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:gpr_realloc\n"
         "leak:CRYPTO_zalloc\n";
}

// Else each exit lists what was suppressed.
extern "C" const char* __lsan_default_options() {
  return "print_suppressions=0";
}
