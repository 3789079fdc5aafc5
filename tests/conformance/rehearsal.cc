#include "tests/conformance/rehearsal.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/implementation_under_test.h"

namespace tutti::conformance {

absl::StatusOr<Rehearsal> Rehearsal::Create(const Case& c, InstanceKey key) {
  auto expected = Expectation::Create(UnderTest(), c,
                                      MakeInputs(UnderTest(), c, /*seed=*/1));
  if (!expected.ok()) return expected.status();
  return Rehearsal(c, key, *std::move(expected));
}

CaseExecution Rehearsal::PrepareInstead(const Case& c) const {
  return CaseExecution(c, RequestsOf(c, UnderTest().name, key_), expected_);
}

std::string Rehearsal::Succeeds(TestGroup& group,
                                const CallOptions& options) const {
  CaseExecution execution = Prepare();
  execution.CallAll(group, options);
  group.driver().RunAll();
  return execution.CheckSuccess();
}

std::string ToString(const Setting& setting) {
  return absl::StrCat(
      setting.driver->ToString(),
      setting.transfers == Transfers::kDeferred ? ", deferred transfers" : "");
}

std::vector<Setting> Settings() {
  const uint64_t deferred_seeds = UnderTest().quick ? 2 : 5;
  constexpr int kThreads = 3;
  std::vector<Setting> settings;
  settings.push_back({std::make_unique<SeededDriver>(0), Transfers::kAtOnce});
  for (uint64_t seed = 1; seed <= deferred_seeds; ++seed) {
    settings.push_back(
        {std::make_unique<SeededDriver>(seed), Transfers::kDeferred});
  }
  settings.push_back({OnThreads(kThreads), Transfers::kAtOnce});
  settings.push_back({OnThreads(kThreads), Transfers::kDeferred});
  return settings;
}

void ForEachSample(
    const TypeOnGrid& param,
    absl::FunctionRef<void(const Rehearsal&, const Setting&)> test) {
  for (const Case& c : SampleCases(UnderTest(), param.type, param.grid)) {
    const auto rehearsal = Rehearsal::Create(c);
    ASSERT_TRUE(rehearsal.ok()) << ToString(c) << ": " << rehearsal.status();
    for (const Setting& setting : Settings()) {
      SCOPED_TRACE(absl::StrCat(ToString(c), ", ", ToString(setting)));
      test(*rehearsal, setting);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace tutti::conformance
