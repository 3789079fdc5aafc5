#include "tests/conformance/rehearsal.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/conformance/case_lists.h"

namespace tutti::conformance {

bool Any(CollectiveType /*type*/) { return true; }

std::vector<Claim> ClaimsOnGrids(int min_ranks,
                                 bool (*wanted)(CollectiveType)) {
  std::vector<Claim> claims;
  for (const ImplementationUnderTest& under_test : UnderTest()) {
    if (!under_test.is_run) continue;
    for (const CollectiveType type : under_test.traits().collectives) {
      if (!wanted(type)) continue;
      for (const Grid& grid : Grids(under_test.tier)) {
        if (grid.size() < min_ranks) continue;
        claims.push_back({&under_test, type, grid});
      }
    }
  }
  return claims;
}

std::vector<Claim> ClaimsWithLengths() {
  std::vector<Claim> claims;
  for (Claim claim : ClaimsOnGrids(/*min_ranks=*/1)) {
    for (const int64_t length : Lengths(claim.type, claim.under_test->tier)) {
      claim.length = length;
      claims.push_back(claim);
    }
  }
  return claims;
}

std::string NameWithLength(const testing::TestParamInfo<Claim>& info) {
  return absl::StrCat(NameWithoutLength(info), "_", info.param.length);
}

std::string NameWithoutLength(const testing::TestParamInfo<Claim>& info) {
  return absl::StrCat(info.param.under_test->name, "_", Name(info.param.type),
                      "_", ToString(info.param.grid));
}

absl::StatusOr<Rehearsal> Rehearsal::Create(
    const ImplementationUnderTest& under_test, const Case& c, InstanceKey key) {
  auto expected =
      Expectation::Create(under_test, c, MakeInputs(under_test, c, /*seed=*/1));
  if (!expected.ok()) return expected.status();
  return Rehearsal(under_test, c, key, *std::move(expected));
}

CaseExecution Rehearsal::PrepareInstead(const Case& c) const {
  return CaseExecution(c, RequestsOf(c, under_test_->name, key_), expected_);
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

std::vector<Setting> Settings(Tier tier) {
  const uint64_t deferred_seeds = tier == Tier::kDeep ? 5 : 2;
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
    const Claim& claim,
    absl::FunctionRef<void(const Rehearsal&, const Setting&)> test) {
  const ImplementationUnderTest& under_test = *claim.under_test;
  for (const Case& c : SampleCases(under_test, claim.type, claim.grid)) {
    const auto rehearsal = Rehearsal::Create(under_test, c);
    ASSERT_TRUE(rehearsal.ok()) << ToString(c) << ": " << rehearsal.status();
    for (const Setting& setting : Settings(under_test.tier)) {
      SCOPED_TRACE(absl::StrCat(ToString(c), ", ", ToString(setting)));
      test(*rehearsal, setting);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace tutti::conformance
