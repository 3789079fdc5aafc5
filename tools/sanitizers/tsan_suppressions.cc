// The packaged Abseil is not built for ThreadSanitizer, which therefore misses
// that the last copy of an absl::Status to go comes after all the others: to
// free the message that they share looks like a race with those who read it.
// Where the compiler puts that function into others, reports name it without
// its class.
extern "C" const char* __tsan_default_suppressions() {
  return "race:absl::*Status::Unref\n"
         "race:^Unref$\n";
}
