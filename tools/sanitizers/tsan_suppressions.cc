// The packaged Abseil is not built for ThreadSanitizer. ThreadSanitizer
// therefore misses that the last copy of an absl::Status is destroyed after all
// others. Freeing the message that the copies share looks like a race with its
// readers. If the compiler inlines that function, reports name it without its
// class.
extern "C" const char* __tsan_default_suppressions() {
  return "race:absl::*Status::Unref\n"
         "race:^Unref$\n";
}
