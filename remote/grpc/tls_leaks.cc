// The packaged gRPC 1.51 loses a few buffers, of some 600 bytes each, with each
// connection with TLS. LeakSanitizer sees no further than who allocates them;
// nothing of ours does it there.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:gpr_realloc\n";
}
