// Fuzzes the file that names the tasks of a cluster.

#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "tools/base/exit_status.h"
#include "tools/cluster/cluster_file.h"

namespace tutti {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto words = ParseClusterFile(text, "cluster.json");
  if (!words.ok()) {
    Promise(IsUsageError(words.status()),
            "what is no cluster file is the user's error");
    Promise(words.status().message().substr(0, 13) == "cluster.json:",
            "the error names the file");
    return 0;
  }
  for (const auto& [name, value] : *words) {
    Promise(!name.empty() && name.find('_') == std::string::npos,
            "words have the names of options");
  }
  return 0;
}

std::vector<std::string> FuzzSeeds() {
  return {
      R"({"job": "worker", "tasks": ["host1:7000", "host2:7000"],)"
      R"( "devices_per_task": 2, "tls_cert": "certs/task-{task}.pem"})",
      R"({"tasks": ["[::1]:7000"], "task": 0, "insecure": true})",
      R"({"tasks": "host1:7000", "devices_per_task": -1.5e300})",
      R"({"tasks": [[["\ud800\u0000"]]], "bind": null})",
  };
}

}  // namespace tutti
