#include "tests/conformance/implementation_under_test.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace tutti::conformance {
namespace {

ImplementationUnderTest& Mutable() {
  static auto* const under_test = new ImplementationUnderTest();
  return *under_test;
}

bool RunsOnCpus(const ImplementationTraits& traits) {
  const auto& types = traits.device_types;
  return types.empty() ||
         std::find(types.begin(), types.end(), "CPU") != types.end();
}

}  // namespace

absl::Status ReadArguments(int argc, char** argv) {
  ImplementationUnderTest& under_test = Mutable();
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (argument == "--quick") under_test.quick = true;
    if (argument == "--unproved") under_test.unproved = true;
    if (absl::ConsumePrefix(&argument, "--implementation=")) {
      under_test.name = std::string(argument);
    }
  }
  if (under_test.name.empty()) {
    return absl::InvalidArgumentError(
        "say which implementation to prove: --implementation=NAME");
  }
  const absl::Status registered = CollectiveRegistry::Global().status();
  if (!registered.ok()) return registered;
  auto factory = CollectiveRegistry::Global().Find(under_test.name);
  if (!factory.ok()) return factory.status();
  under_test.factory = *std::move(factory);
  under_test.algorithm = AlgorithmOf(*under_test.factory);
  const absl::Status parts = CheckParts(under_test.traits());
  if (!parts.ok()) return parts;
  if (RunsOnCpus(under_test.traits())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(under_test.name, " runs on ",
                   absl::StrJoin(under_test.traits().device_types, ", "),
                   "; the conformance suite has CPU devices only"));
}

const ImplementationUnderTest& UnderTest() { return Mutable(); }

}  // namespace tutti::conformance
