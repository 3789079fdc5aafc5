// Passes the seeds of a target to libFuzzer, which brings its own main():
// writes them into the first folder among the arguments, which is the corpus.

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  int number = 0;
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path folder((*argv)[i]);
    if (!std::filesystem::is_directory(folder)) continue;
    for (const std::string& seed : tutti::FuzzSeeds()) {
      std::ofstream(folder / absl::StrCat("seed-", number++), std::ios::binary)
          << seed;
    }
    break;
  }
  return 0;
}
