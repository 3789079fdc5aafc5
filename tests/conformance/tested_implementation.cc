#include "tests/conformance/tested_implementation.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "schedule/proof/standard_cases.h"

namespace tutti::conformance {
namespace {

std::vector<ImplementationUnderTest>& Mutable() {
  static auto* const under_test = new std::vector<ImplementationUnderTest>();
  return *under_test;
}

struct Arguments {
  std::string name;  // Empty: all.
  Tier tier = Tier::kDefault;
  bool unproved = false;
};

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (argument == "--quick") arguments.tier = Tier::kQuick;
    if (argument == "--deep") arguments.tier = Tier::kDeep;
    if (argument == "--unproved") arguments.unproved = true;
    if (absl::ConsumePrefix(&argument, "--implementation=")) {
      arguments.name = std::string(argument);
    }
  }
  return arguments;
}

bool RunsOnCpus(const ImplementationTraits& traits) {
  const auto& types = traits.device_types;
  return types.empty() ||
         std::find(types.begin(), types.end(), "CPU") != types.end();
}

absl::StatusOr<std::vector<CollectiveRegistry::Entry>> Choose(
    const std::string& name) {
  const CollectiveRegistry& registry = CollectiveRegistry::Global();
  if (!registry.status().ok()) return registry.status();
  std::vector<CollectiveRegistry::Entry> entries;
  if (name.empty()) {
    for (auto& entry : registry.List()) {
      if (RunsOnCpus(entry.factory->traits())) entries.push_back(entry);
    }
    if (!entries.empty()) return entries;
    return absl::InvalidArgumentError(
        "no implementation is registered that runs on CPU devices");
  }
  auto factory = registry.Find(name);
  if (!factory.ok()) return factory.status();
  const ImplementationTraits& traits = (*factory)->traits();
  if (!RunsOnCpus(traits)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " runs on ", absl::StrJoin(traits.device_types, ", "),
        "; the conformance suite has CPU devices only"));
  }
  entries.push_back({name, *std::move(factory)});
  return entries;
}

bool IsWrongOnPaper(const ImplementationUnderTest& under_test) {
  if (under_test.algorithm == nullptr || !under_test.is_proved) return false;
  const int max_ranks = under_test.tier == Tier::kDeep ? 16 : 8;
  return !VerifyStandardCases(*under_test.algorithm, {.max_ranks = max_ranks})
              .first_failure.ok();
}

}  // namespace

absl::Status ReadArguments(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  auto entries = Choose(arguments.name);
  if (!entries.ok()) return entries.status();
  for (auto& [name, factory] : *entries) {
    const absl::Status parts = CheckParts(factory->traits());
    if (!parts.ok()) return parts;
    Mutable().push_back({.name = name,
                         .factory = factory,
                         .algorithm = AlgorithmOf(*factory),
                         .tier = arguments.tier,
                         .is_proved = !arguments.unproved});
  }
  return absl::OkStatus();
}

void ProveBeforeRuns() {
  for (ImplementationUnderTest& under_test : Mutable()) {
    under_test.is_run = !IsWrongOnPaper(under_test);
  }
}

const std::vector<ImplementationUnderTest>& UnderTest() { return Mutable(); }

}  // namespace tutti::conformance
